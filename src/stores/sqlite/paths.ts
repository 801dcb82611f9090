import { existsSync } from "node:fs";
import { dirname, resolve } from "node:path";

/** Paths of the files that make up a store. */
export interface StorePaths {
  /** Path of the database file. */
  readonly path: string;
  /** Path of the anchor. */
  readonly anchorPath: string;
  /** Path of the file of the keys that sign checkpoints. */
  readonly keyPath: string;
}

export function sqlitePaths(
  path: string,
  { anchor, ledgerKey }: { readonly anchor: string | undefined; readonly ledgerKey: string },
): StorePaths {
  return { path, anchorPath: anchorPathOf(path, anchor), keyPath: ledgerKey };
}

/** The default is beside the store. */
export function anchorPathOf(path: string, anchor: string | undefined): string {
  return anchor ?? `${path}.anchor`;
}

/** Returns why no new store may be made at the path: its name may be wrong. Undefined if one may. */
export function misplacedProblem({ path, keyPath }: Pick<StorePaths, "path" | "keyPath">): string | undefined {
  const folder = dirname(resolve(path));
  if (existsSync(folder) || !existsSync(keyPath)) return undefined;
  return (
    `the folder ${folder} is missing, and the ledger key ${keyPath} is there: its store may be elsewhere. Correct the path, ` +
    "or make the folder for a new store."
  );
}
