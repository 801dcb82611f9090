import { existsSync } from "node:fs";
import { dirname, resolve } from "node:path";

/** Paths of the files that make up a store. */
export interface StorePaths {
  /** Path of the database file. */
  readonly path: string;
  /** Path of the anchor. */
  readonly anchorPath: string;
}

/** @param anchor path of the anchor; default: beside the store */
export function sqlitePaths(path: string, anchor: string | undefined): StorePaths {
  return { path, anchorPath: anchor ?? `${path}.anchor` };
}

/** Returns why no new store may be made at the path: its name may be wrong. Undefined if one may. */
export function misplacedProblem(path: string, keyPath: string): string | undefined {
  const folder = dirname(resolve(path));
  if (existsSync(folder) || !existsSync(keyPath)) return undefined;
  return (
    `the folder ${folder} is missing, and the ledger key ${keyPath} is there: its store may be elsewhere. Correct the path, ` +
    "or make the folder for a new store."
  );
}
