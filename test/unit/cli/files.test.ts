/** Files of a store that are not what they should be: the commands end, and name the file and its setting. */
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { beforeEach, expect, test } from "vitest";
import { storeIn } from "../../contract/ledger-records.ts";
import { directory, eachWithStore, erasing, openLedger, refused, removeDatabase, run, served } from "./surroundings.ts";

eachWithStore();
beforeEach(() => served(["alice"]));

const makeFifo = (path: string) => {
  removeDatabase(path);
  execFileSync("mkfifo", ["-m", "600", path]);
};
const makeDirectory = (path: string) => {
  removeDatabase(path);
  mkdirSync(path);
};

const commands = [
  ["ledger", "verify"],
  ["ledger", "search", "--tenant", "alice"],
  ["ledger", "hold", "list"],
  ["ledger", "reindex"],
  ["ledger", "erase", "--tenant", "alice", "--record", "019a0000-0000-7000-8000-000000000000", ...erasing],
];

test.runIf(process.platform !== "win32").each([
  ["store", "a FIFO", makeFifo, "SVC_STORE"],
  ["store", "a directory", makeDirectory, "SVC_STORE"],
  ["anchor", "a FIFO", makeFifo, "SVC_ANCHOR"],
  ["anchor", "a directory", makeDirectory, "SVC_ANCHOR"],
] as const)("no command waits for a %s that is %s", async (file, kind, make, setting) => {
  const { path, anchorPath } = storeIn(directory);
  const there = file === "store" ? path : anchorPath;
  make(there);
  for (const command of commands) {
    // Rebuilding an index needs no anchor.
    if (file === "anchor" && command[1] === "reindex") continue;
    const { code, err } = await run(...command);
    expect({ command, code, err }).toEqual({ command, code: 1, err: expect.stringContaining(`${there} is ${kind}`) });
    expect(err.slice(0, setting.length)).toBe(setting);
  }
  await expect(openLedger()).rejects.toThrow(`${there} is ${kind}`);
});

test.runIf(process.platform !== "win32")("a key that is a FIFO does not block", async () => {
  const { keyPath } = storeIn(directory);
  makeFifo(keyPath);
  await refused(run("keys", "show"), `${keyPath} is a FIFO, not a regular file.\n`);
  await expect(openLedger()).rejects.toThrow("is a FIFO");
});

test.each([
  ["no database", (bytes: Buffer) => bytes.fill("x", 0, 4_096)],
  ["cut off", (bytes: Buffer) => bytes.subarray(0, 1_000)],
  ["overwritten behind its first page", (bytes: Buffer) => bytes.fill(0xff, 4_096)],
])("an anchor that is %s is reported, and not the store", async (_, damage) => {
  const { anchorPath } = storeIn(directory);
  const bytes = readFileSync(anchorPath);
  removeDatabase(anchorPath);
  writeFileSync(anchorPath, damage(bytes));
  for (const command of commands.filter(([, name]) => name !== "reindex")) {
    const { code, err } = await run(...command);
    expect({ command, code, err }).toEqual({
      command,
      code: 1,
      err: expect.stringContaining(`${anchorPath}: the anchor cannot be used: `),
    });
    expect(err).not.toContain("SVC_STORE");
  }
  await expect(openLedger()).rejects.toThrow(`${anchorPath}: the anchor cannot be used: `);
});
