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
