/** Opens the store of the settings for reading, whichever kind it is. */
import { existsSync } from "node:fs";
import type { StoreArchive } from "../ledger/archive.ts";
import { sqlitePlace } from "./sqlite/place.ts";

/** Where records are kept, as settings say it. */
export type ArchiveLocation =
  | { readonly kind: "sqlite"; readonly path: string }
  | { readonly kind: "postgres"; readonly url: string };

export interface ArchiveSettings {
  readonly store: ArchiveLocation;
  /** Path of the anchor; undefined for the one beside an embedded store. */
  readonly anchor: string | undefined;
  readonly ledgerKey: string;
}

/** Rejects where the store is missing or cannot be read; the message is for the operator. */
export async function openStoreArchive(settings: ArchiveSettings): Promise<StoreArchive> {
  const { store } = settings;
  if (store.kind !== "sqlite") throw new Error(`${store.kind} stores are not read by this build`);
  if (!existsSync(store.path)) throw new Error(`${store.path} is missing`);
  const { SqliteArchive } = await import("./sqlite/archive.ts");
  return new SqliteArchive(sqlitePlace(store.path, settings));
}
