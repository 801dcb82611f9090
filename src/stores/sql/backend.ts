/**
 * The ports that a store implements for the service and its commands. A new kind of store is a folder with a
 * `backend.ts`, and a case in `backends.ts`; the suites of `test/contract` test what all stores share.
 */
import type { ReplayStore } from "../../auth/replay-store.ts";
import type { Clock } from "../../base/clock.ts";
import type { RandomFill } from "../../base/ids.ts";
import type { StoreLocation } from "../../base/postgres-url.ts";
import type { PortionCounters } from "../../domain/ports.ts";
import type { AppendEvents } from "../../ledger/append/appender.ts";
import type { ServiceLedger } from "../../ledger/append/ledger.ts";
import type { OpenSharedAnchor } from "../../ledger/ports/anchor.ts";
import type { LogState } from "../../ledger/ports/store.ts";
import type { SqliteAnchor } from "../files/anchor.ts";
import type { OperatorArchive } from "./archive.ts";
import type { Database, Transaction, Value } from "./queries.ts";
import type { Table } from "./schema.ts";

export interface StoreSettings {
  readonly store: StoreLocation;
  /** Path of the password file for PostgreSQL; undefined for the password of the URL. */
  readonly storePasswordFile?: string | undefined;
  /** Path of the anchor; undefined for the one beside an embedded store, and for none beside PostgreSQL. */
  readonly anchor: string | undefined;
}

export interface StoreBackend {
  /**
   * Opens the store for a service. Rejects with `IncompatibleStoreError` if the schema is not this program's, a log
   * contradicts the anchor or the key is not the store's own, or its file cannot be used; with an error of the driver or
   * the file system if the store cannot be opened.
   */
  openStores(settings: ServiceSettings, machine: ServiceMachine): Promise<ServiceStores>;
  /** Opens the store for reading. Like the next one, rejects if it is missing or unusable, for the operator. */
  openArchive(): Promise<OperatorArchive>;
  /** Opens the store to change it beside services. */
  openDatabase(purpose: Purpose): Promise<StoreDatabase>;
  /** Creates the store if it is missing, and brings it to this program's schema. */
  migrate(options: MigrateOptions): Promise<Migrated>;
  /** Copies an embedded store to a new file, beside a running service. Rejects for a database. */
  backUp(target: string): Promise<Backup>;
}

/** A store of this program's schema, as commands open it, beside services or without one. */
export interface StoreDatabase extends Database, AsyncDisposable {
  /** Begins messages. */
  readonly name: string;
  /** Path of the anchor; undefined if there is none. */
  readonly anchorPath: string | undefined;
  /** Whether the anchor notes erasures. */
  readonly notesErasures: boolean;
  /** Opens the anchor to append; undefined if there is none. Rejects with `IncompatibleStoreError` for another store's. */
  openAnchor(): Promise<SqliteAnchor | undefined>;
  openArchive(): Promise<OperatorArchive>;
  /** The database's clock, in milliseconds since the Unix epoch; absent if that is the machine's. */
  clockMs?(): Promise<number>;
  sizeBytes(): Promise<number>;
  /** Rewrites the store without free space; absent if the database has its own means. */
  rewrite?(): Promise<void>;
  /**
   * Copies all commits into the file, with zeros in place of deleted bytes, and empties the write-ahead log. False if
   * readers of an older state, or writers, held their locks for too long; absent if the database manages its log.
   * @param pause between attempts: resolves after other work had a turn
   */
  emptyLog?(pause: () => Promise<void>): Promise<boolean>;
  /** Inserts rows of a copy, whether or not the logs of their tenants have heads. */
  insert(transaction: Transaction, table: Table, rows: readonly (readonly Value[])[]): Promise<void>;
  /** Statements that make tables refuse every write of services and commands, and those that end this. */
  readonly sealing: Readonly<Record<"seal" | "unseal", (tables: readonly string[]) => readonly string[]>>;
  /** Statements that write what this kind of store derives from the rows of a copy. */
  readonly completion: readonly string[];
}

/** What a store is opened for. Parts in a copy are open to stores that no service may use. */
export type Purpose = "upkeep" | "source" | "target";

export interface Backup {
  readonly path: string;
  readonly sizeBytes: number;
  readonly storeId: string;
  /** Every log, by tenant. */
  readonly logs: readonly LogState[];
}

export interface ServiceSettings {
  readonly storePoolSize: number;
  /** Bound of all that one call waits for in the store. */
  readonly storeTimeoutMs: number;
  /** Path of the file of the keys that sign checkpoints. */
  readonly ledgerKey: string;
  /** Prefix of a log's origin, before its random part. */
  readonly ledgerOrigin: string;
}

export interface ServiceMachine {
  readonly clock: Clock;
  readonly random: RandomFill;
  readonly logger?: StoreLogger;
  /** Makes an anchor that is asked over the network, such as witnesses. */
  readonly openAnchor?: OpenSharedAnchor | undefined;
  readonly events?: AppendEvents | undefined;
}

/** Messages of a running store for the operator. */
export interface StoreLogger {
  info(fields: Readonly<Record<string, unknown>>, message: string): void;
  warn(fields: Readonly<Record<string, unknown>>, message: string): void;
}

export interface ServiceStores {
  readonly ledger: ServiceLedger;
  /** Short-lived state that replicas share. The ledger closes it. */
  readonly shared: ReplayStore & PortionCounters;
  /** Tenants, and other keys, whose work is stuck; the longest first. */
  stuck(): readonly string[];
}

export interface MigrateOptions {
  readonly random: RandomFill;
  /** Whether the tables are spread over the nodes of a cluster. */
  readonly distributed: boolean;
}

export interface Migrated {
  readonly version: number;
  /** Names of the applied migrations, and of the distributed tables. */
  readonly applied: readonly string[];
}
