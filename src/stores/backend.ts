/**
 * What a store gives to the service and its commands: every port that it must implement. Another kind of store is a folder
 * with a `backend.ts` beside the others, and a case in `backends.ts`; the suites of `test/contract` hold what all share.
 */
import type { ReplayStore } from "../auth/proof/replay-store.ts";
import type { Clock } from "../base/clock.ts";
import type { RandomFill } from "../base/ids.ts";
import type { StoreLocation } from "../base/postgres-url.ts";
import type { AttemptCounters, PortionCounters } from "../domain/ports.ts";
import type { CommitObserver } from "../ledger/append/observed.ts";
import type { OpenSharedAnchor } from "../ledger/ports/anchor.ts";
import type { StoreArchive } from "../ledger/ports/archive.ts";
import type { Ledger, PublishedLogs } from "../ledger/ports/ledger.ts";
import type { RecordsAdministration } from "../ledger/ports/records-administration.ts";
import type { SearchIndexer } from "../ledger/ports/search.ts";
import type { LogState } from "../ledger/ports/store.ts";

/** What names a store. */
export interface StoreSettings {
  readonly store: StoreLocation;
  /** Path of the password file for PostgreSQL; undefined for the password of the URL. */
  readonly storePasswordFile?: string | undefined;
  /** Path of the anchor; undefined for the one beside an embedded store, and for none beside PostgreSQL. */
  readonly anchor: string | undefined;
}

export interface StoreBackend {
  /**
   * Opens the store for a service. Rejects with `IncompatibleStoreError` where the schema is not this program's, a log is
   * not what the anchor says or the key is not the store's own, with `KeyFileError` where that file cannot be used, with an
   * error of the driver or the file system where the store cannot be opened.
   */
  openStores(settings: ServiceSettings, machine: ServiceMachine): Promise<ServiceStores>;
  /** Opens it for reading. Like the two below it rejects where it is missing or not to be used; the message is for the operator. */
  openArchive(): Promise<StoreArchive>;
  /** Opens it for those who erase and hold records. */
  openAdministration(machine: AdministrationMachine): Promise<RecordsAdministration>;
  /** Opens what builds its search indexes anew. */
  openIndexer(machine: IndexerMachine): Promise<SearchIndexer>;
  /** Makes it where it is missing, and brings it to this program's schema. */
  migrate(options: MigrateOptions): Promise<Migrated>;
  /** Copies an embedded store to a new file, beside a running service. Rejects beside a database, which has its own means. */
  backUp(target: string): Promise<Backup>;
  /** Removes what nobody needs any more, beside a running service. */
  compact(options: CompactOptions): Promise<Compacted>;
}

/** A store as it was copied. */
export interface Backup {
  readonly path: string;
  readonly sizeBytes: number;
  readonly storeId: string;
  /** Every log, by tenant. */
  readonly logs: readonly LogState[];
}

export interface CompactOptions {
  /** Milliseconds since the Unix epoch. */
  readonly nowMs: number;
  /** Whether an embedded store's file is written anew; nobody else can write meanwhile. */
  readonly rewrite: boolean;
  /** Resolves when the next of many short transactions may begin. */
  readonly pause: () => Promise<void>;
  readonly onProgress: (text: string) => void;
}

export interface Compacted {
  /** Rows that went, by table. */
  readonly removed: Readonly<Record<string, number>>;
  readonly beforeBytes: number;
  readonly afterBytes: number;
  /** Whether the write-ahead log is empty; undefined where the database sees to it. */
  readonly isLogEmpty: boolean | undefined;
}

/** Settings of a service that opens a store. */
export interface ServiceSettings {
  /** Connections at a time. */
  readonly storePoolSize: number;
  /** For all that one call waits for in the store together. */
  readonly storeTimeoutMs: number;
  /** Path of the file of the keys that sign checkpoints. */
  readonly ledgerKey: string;
  /** What stands before the random part of a log's origin. */
  readonly ledgerOrigin: string;
}

export interface ServiceMachine {
  readonly clock: Clock;
  readonly random: RandomFill;
  readonly logger: StoreLogger;
  /** Makes an anchor that is asked over the network, such as witnesses. */
  readonly openAnchor: OpenSharedAnchor | undefined;
  readonly commits?: CommitObserver;
}

/** What stores have to say to an operator while they run. */
export interface StoreLogger {
  warn(fields: Readonly<Record<string, unknown>>, message: string): void;
}

/** A store that is open for a service. */
export interface ServiceStores {
  readonly ledger: Ledger & PublishedLogs;
  /** What replicas share for a short time. It is closed with the ledger. */
  readonly shared: ReplayStore & AttemptCounters & PortionCounters;
  /** Tenants, and other keys, that the store does not get on with now; the longest first. */
  stuck(): readonly string[];
}

export interface AdministrationMachine {
  readonly clock: Clock;
  readonly random: RandomFill;
  /** Lets others have their turn. */
  readonly pause: () => Promise<void>;
}

export interface IndexerMachine {
  readonly random: RandomFill;
  /** Resolves when the next of many short transactions may begin, so that a running service comes in between. */
  readonly pause: () => Promise<void>;
}

export interface MigrateOptions {
  readonly random: RandomFill;
  /** Whether the tables are spread over the nodes of a cluster. */
  readonly distributed: boolean;
}

export interface Migrated {
  /** Version of the schema. */
  readonly version: number;
  /** Names of the migrations that were applied, and of the tables that were spread. */
  readonly applied: readonly string[];
}
