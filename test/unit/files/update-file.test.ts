/** Files that commands change: the same users can read one as before, and no others. */
import { chmodSync, chownSync, existsSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { updateFile } from "../../../src/files/file-system.ts";
import { signingKeyOf } from "../../../src/ledger/tlog/note-keys.ts";
import { createKeyFile, replaceKeyFile } from "../../../src/stores/files/key-file.ts";
import { folderForTest } from "../../harness/folder.ts";

let folder: string;
let path: string;
beforeEach(() => {
  folder = folderForTest("update");
  path = join(folder, "file");
});

const key = (seed: number) => signingKeyOf(new Uint8Array(32).fill(seed));
const ways = [
  ["a list", (to: string) => updateFile(to, () => "new")],
  ["a key file", (to: string) => replaceKeyFile(to, [key(2), key(1)])],
] as const;
const isRoot = process.getuid?.() === 0;
const modeOf = (of: string) => statSync(of).mode & 0o777;

describe.skipIf(process.platform === "win32").each(ways)("%s that is changed", (_what, change) => {
  test.each([
    ["its owner's alone", 0o600, 0o600],
    ["a group's to read", 0o640, 0o640],
    ["not writable", 0o440, 0o640],
    ["everybody's to read", 0o644, 0o600],
    ["a group's to write", 0o660, 0o600],
  ])("and is %s", (_who, before, after) => {
    writeFileSync(path, "old");
    chmodSync(path, before);
    change(path);
    expect(modeOf(path)).toBe(after);
  });

  test("keeps its owner", () => {
    writeFileSync(path, "old", { mode: 0o640 });
    // Only root gives files away, and changes those of others.
    const [owner, group] = isRoot ? [1_234, 5_678] : [process.getuid?.() ?? 0, process.getgid?.() ?? 0];
    chownSync(path, owner, group);
    change(path);
    const { uid, gid } = statSync(path);
    expect([uid, gid, modeOf(path)]).toEqual([owner, group, 0o640]);
  });
});

test("a key file that cannot be written leaves nothing in its place", () => {
  const full = () => {
    throw new Error("no space left");
  };
  expect(() => createKeyFile(path, [{ ...key(1), privateKey: { export: full } } as never])).toThrow("no space left");
  expect(existsSync(path)).toBe(false);
});

test.skipIf(process.platform === "win32")("a new file is readable by its owner only", () => {
  updateFile(path, () => "new");
  createKeyFile(join(folder, "key"), [key(1)]);
  expect([modeOf(path), modeOf(join(folder, "key"))]).toEqual([0o600, 0o600]);
});
