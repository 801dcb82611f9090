/** Folders and files of tests. */
import { randomUUID } from "node:crypto";
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, onTestFinished } from "vitest";

/** Makes a folder for all tests of a file, which goes after the last one. To be called while the file loads. */
export const folderForFile = (name: string): string => folderUntil(afterAll, name);

/** The same for one test. To be called in it, or before each. */
export const folderForTest = (name: string): string => folderUntil(onTestFinished, name);

function folderUntil(ending: (action: () => void) => void, name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `svc-${name}-`));
  ending(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Writes a file so that it is never seen half written, and nothing else is seen beside it. */
export function replaceFile(path: string, text: string, mode = 0o600): void {
  const next = join(tmpdir(), `svc-${randomUUID()}`);
  writeFileSync(next, text, { mode });
  renameSync(next, path);
}

/** Writes files into a folder, by their paths within it. */
export function writeFiles(folder: string, files: Readonly<Record<string, string | Uint8Array>>): void {
  for (const [file, content] of Object.entries(files)) {
    const path = join(folder, file);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content);
  }
}
