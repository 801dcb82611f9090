/** Files that exist completely or not at all, many at a time in one folder. */
import { readdirSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, test, vi } from "vitest";
import { createFile, syncDirectory } from "../../../clients/typescript/src/enforce/files.ts";
import { folderForFile } from "../../harness/folder.ts";

vi.mock("node:fs/promises", async (original) => {
  const real = await original<typeof import("node:fs/promises")>();
  return { ...real, open: vi.fn(real.open) };
});

const folder = folderForFile("files");

/** Syncs of the folder, and the files that were there when each began. */
let syncs: string[][] = [];
let during: () => void = () => {};

beforeEach(async () => {
  const { open: really } = await vi.importActual<typeof import("node:fs/promises")>("node:fs/promises");
  syncs = [];
  during = () => {};
  vi.mocked(open).mockImplementation(async (path, ...how) => {
    const file = await really(path, ...how);
    if (path !== folder) return file;
    const sync = async () => {
      syncs.push(readdirSync(folder));
      during();
      await file.sync();
    };
    return { sync, close: () => file.close() } as FileHandle;
  });
});

test("files written at the same time share syncs of their folder, each with one that began after its name", async () => {
  const names = Array.from({ length: 100 }, (_, i) => `event-${i}.json`);
  await Promise.all(
    names.map(async (name) => {
      await createFile(join(folder, name), Buffer.from(name));
      expect(syncs.some((found) => found.includes(name))).toBe(true);
    }),
  );
  expect(syncs.length).toBeLessThan(50);
  expect(readdirSync(folder).sort()).toEqual(names.sort());
});

test("a sync requested during another is a new one, which all waiting callers share", async () => {
  const waiting: Promise<void>[] = [];
  during = () => {
    if (syncs.length === 1) waiting.push(syncDirectory(folder), syncDirectory(folder));
  };
  await syncDirectory(folder);
  await Promise.all(waiting);
  expect(syncs.length).toBe(2);
});

test("a failed sync fails the callers who shared it, and no later one", async () => {
  during = () => {
    throw new Error("no disk");
  };
  await expect(syncDirectory(folder)).rejects.toThrow("no disk");
  during = () => {};
  await syncDirectory(folder);
});
