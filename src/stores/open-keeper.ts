/** Opens the store of the settings for those who erase and hold records, whichever kind it is. */
import { existsSync } from "node:fs";
import type { Clock } from "../base/clock.ts";
import type { RandomFill } from "../base/ids.ts";
import type { StoreKeeper } from "../ledger/ports/keeper.ts";
import type { ArchiveSettings } from "./open-archive.ts";
import { sqlitePlace } from "./sqlite/place.ts";

export interface KeeperMachine {
  readonly clock: Clock;
  readonly random: RandomFill;
  /** Lets others have their turn. */
  readonly pause: () => Promise<void>;
}

/** Rejects where the store is missing, of another version, or not what its anchor says; the message is for the operator. */
export async function openStoreKeeper(settings: ArchiveSettings, machine: KeeperMachine): Promise<StoreKeeper> {
  const { store } = settings;
  if (store.kind === "postgres") {
    const { PostgresKeeper } = await import("./postgres/erasure/keeper.ts");
    const { anchor: anchorPath, storePasswordFile: passwordFile } = settings;
    return PostgresKeeper.open({ target: store.target, passwordFile, anchorPath, ...machine });
  }
  if (!existsSync(store.path)) throw new Error(`${store.path} is missing`);
  const { SqliteKeeper } = await import("./sqlite/erasure/keeper.ts");
  return new SqliteKeeper({ ...sqlitePlace(store.path, settings), ...machine });
}
