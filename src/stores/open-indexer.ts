/** Opens what builds the search indexes of the store of the settings anew, whichever kind it is. */
import { existsSync } from "node:fs";
import { systemClock } from "../base/clock.ts";
import type { RandomFill } from "../base/ids.ts";
import type { SearchIndexer } from "../ledger/search/search-index.ts";
import type { ArchiveLocation } from "./open-archive.ts";

export interface IndexerOptions {
  readonly store: ArchiveLocation;
  /** Path of the password file for PostgreSQL; undefined for the password of the URL. */
  readonly storePasswordFile?: string | undefined;
  readonly random: RandomFill;
  /** Resolves when the next of many short transactions may begin, so that a running service comes in between. */
  readonly pause: () => Promise<void>;
}

/** Rejects where the store is missing or cannot be written; the message is for the operator. */
export async function openSearchIndexer(options: IndexerOptions): Promise<SearchIndexer> {
  const { store, storePasswordFile: passwordFile, random, pause } = options;
  if (store.kind === "postgres") {
    const { PostgresSearchIndexer } = await import("./postgres/search/search-indexer.ts");
    return PostgresSearchIndexer.open({ target: store.target, passwordFile, clock: systemClock, random, pause });
  }
  if (!existsSync(store.path)) throw new Error(`${store.path} is missing`);
  const { SqliteSearchIndexer } = await import("./sqlite/search/search-indexer.ts");
  return new SqliteSearchIndexer({ path: store.path, random, pause });
}
