/** The version before this one, for tests of both at once: a commit of the repository, checked out beside it. */
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";

/** Moves on to each version when it is released. */
const previousVersion = "0cabda52d29e69d12585b8d93a6aa5d1b219fc3b";

const root = join(import.meta.dirname, "../..");

/**
 * Puts its files into a folder, with packages: those of this version where both ask for the same. Returns the folder.
 * Throws where the repository does not have its history.
 */
export function checkOutPrevious(folder: string): string {
  const archive = execFileSync("git", ["archive", previousVersion], { cwd: root, maxBuffer: 2 ** 28 });
  mkdirSync(folder);
  execFileSync("tar", ["-x", "-C", folder], { input: archive });
  const locked = (directory: string) => readFileSync(join(directory, "package-lock.json"), "utf8");
  if (locked(folder) === locked(root)) symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  else execFileSync("npm", ["ci", "--omit=dev", "--no-audit", "--no-fund"], { cwd: folder });
  return folder;
}
