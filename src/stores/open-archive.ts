/** Opens the store of the settings for reading, whichever kind it is. */
import { existsSync } from "node:fs";
import { systemClock } from "../base/clock.ts";
import type { PostgresTarget } from "../base/postgres-url.ts";
import type { StoreArchive } from "../ledger/ports/archive.ts";
import { sqlitePlace } from "./sqlite/place.ts";

/** Where records are kept, as settings say it. */
export type ArchiveLocation =
  | { readonly kind: "sqlite"; readonly path: string }
  | { readonly kind: "postgres"; readonly target: PostgresTarget };

export interface ArchiveSettings {
  readonly store: ArchiveLocation;
  /** Path of the password file for PostgreSQL; undefined for the password of the URL. */
  readonly storePasswordFile?: string | undefined;
  /** Path of the anchor; undefined for the one beside an embedded store, and for none beside PostgreSQL. */
  readonly anchor: string | undefined;
  readonly ledgerKey: string;
}

/** Rejects where the store is missing or cannot be read; the message is for the operator. */
export async function openStoreArchive(settings: ArchiveSettings): Promise<StoreArchive> {
  const { store } = settings;
  if (store.kind === "postgres") {
    const { PostgresArchive } = await import("./postgres/archive.ts");
    const { anchor: anchorPath, storePasswordFile: passwordFile } = settings;
    return PostgresArchive.open({ target: store.target, passwordFile, anchorPath, clock: systemClock });
  }
  if (!existsSync(store.path)) throw new Error(`${store.path} is missing`);
  const { SqliteArchive } = await import("./sqlite/archive.ts");
  return new SqliteArchive(sqlitePlace(store.path, settings));
}
