/** Opens the stores of the settings for a service, whichever kind they are. */
import type { Clock } from "../base/clock.ts";
import type { RandomFill } from "../base/ids.ts";
import type { PostgresTarget } from "../base/postgres-url.ts";
import type { CommitObserver } from "../ledger/append/observed-writer.ts";
import type { OpenSharedAnchor } from "../ledger/ports/shared-anchor.ts";
import type { PostgresStores, StoreLogger } from "./postgres/open-ledger.ts";
import { openSqliteStores, type SqliteStores } from "./sqlite/open-ledger.ts";
import { sqlitePlace } from "./sqlite/place.ts";

export interface StoreSettings {
  readonly store:
    | { readonly kind: "sqlite"; readonly path: string }
    | { readonly kind: "postgres"; readonly target: PostgresTarget };
  readonly storePasswordFile: string | undefined;
  readonly storePoolSize: number;
  readonly storeTimeoutMs: number;
  /** Path of the anchor; undefined for the one beside an embedded store, and for none beside PostgreSQL. */
  readonly anchor: string | undefined;
  readonly ledgerKey: string;
  readonly ledgerOrigin: string;
}

export interface StoreMachine {
  readonly clock: Clock;
  readonly random: RandomFill;
  readonly logger: StoreLogger;
  readonly openAnchor: OpenSharedAnchor | undefined;
  readonly commits?: CommitObserver;
}

/** Rejects like `openSqliteStores` and `openPostgresStores`. */
export async function openStores(
  settings: StoreSettings,
  machine: StoreMachine,
): Promise<SqliteStores | PostgresStores> {
  const { store, ledgerOrigin: originPrefix } = settings;
  if (store.kind === "sqlite")
    return openSqliteStores({ ...sqlitePlace(store.path, settings), originPrefix, ...machine });
  // Loaded where it is used: the driver takes memory, and time to start.
  const { openPostgresStores } = await import("./postgres/open-ledger.ts");
  return openPostgresStores({
    target: store.target,
    passwordFile: settings.storePasswordFile,
    poolSize: settings.storePoolSize,
    timeoutMs: settings.storeTimeoutMs,
    keyPath: settings.ledgerKey,
    anchorPath: settings.anchor,
    originPrefix,
    ...machine,
  });
}
