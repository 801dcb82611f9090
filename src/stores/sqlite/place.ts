/** Where the parts of a store are. */
export interface StorePlace {
  /** Path of the database file. */
  readonly path: string;
  /** Path of the anchor. */
  readonly anchorPath: string;
  /** Path of the file of the keys that sign checkpoints. */
  readonly keyPath: string;
}

/** The place that settings name; the anchor stands beside the store where they do not say. */
export function sqlitePlace(
  path: string,
  { anchor, ledgerKey }: { readonly anchor: string | undefined; readonly ledgerKey: string },
): StorePlace {
  return { path, anchorPath: anchor ?? `${path}.anchor`, keyPath: ledgerKey };
}
