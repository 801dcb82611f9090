/** Folders of tests. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";

/** Makes a folder for all tests of a file, which goes after the last one. To be called while the file loads. */
export function folderForFile(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `svc-${name}-`));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
