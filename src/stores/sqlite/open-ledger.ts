/** Opens the ledger of an embedded deployment. */
import { realpathSync } from "node:fs";
import { availableParallelism } from "node:os";
import { resolve } from "node:path";
import type { Clock } from "../../base/clock.ts";
import type { RandomFill } from "../../base/ids.ts";
import { StoredLedger } from "../../ledger/append/ledger.ts";
import { type AppenderLimits, defaultAppenderLimits } from "../../ledger/append/limits.ts";
import type { CommitObserver } from "../../ledger/append/observed.ts";
import { describeUndone, undoneRemedy } from "../../ledger/audit/undone-erasures.ts";
import type { OpenSharedAnchor } from "../../ledger/ports/anchor.ts";
import { requireOriginPrefix } from "../../ledger/tlog/log-name.ts";
import type { ServiceStores, StoreLogger } from "../backend.ts";
import { KeyRing } from "../key-ring.ts";
import { openedFile } from "./file-identity.ts";
import type { StorePaths } from "./paths.ts";
import type { WorkerData } from "./protocol.ts";
import { prepareStore } from "./schema/prepare.ts";
import { openSqliteStore, type StoreThreads } from "./store.ts";
import { LateThread, StoreThread, type ThreadLimits } from "./thread.ts";

/**
 * How to open the ledger. The files of store and anchor, and their directories, are made where they are missing; the
 * key is made where both of them are empty.
 */
export interface SqliteLedgerOptions extends StorePaths {
  /** What stands before the random part of a log's origin, such as `ledger.example.org/logs`. */
  readonly originPrefix: string;
  readonly clock: Clock;
  readonly random: RandomFill;
  readonly logger?: StoreLogger;
  /** Makes an anchor besides the file, such as witnesses. */
  readonly openAnchor?: OpenSharedAnchor | undefined;
  /** Told of every durable commit of records. */
  readonly commits?: CommitObserver | undefined;
  /** Bounds of the queues and batches; default `defaultAppenderLimits`. */
  readonly limits?: Partial<AppenderLimits>;
  /** How long a write waits for another process on the same file. Default 1,000 ms, so that readiness tells in time. */
  readonly busyTimeoutMs?: number;
  /** Bounds of the store's threads; default `defaultThreadLimits`. */
  readonly threads?: Partial<ThreadLimits>;
  /** Takes the place of `openConnection` in the store's threads: a module that exports one, and what to hand to it. */
  readonly connection?: { readonly module: URL; readonly data: unknown };
}

/** Defaults: a disk that needs ten seconds for one commit is down; a thread is back before a client's second try. */
export const defaultThreadLimits: ThreadLimits = {
  responseTimeoutMs: 10_000,
  minRestartDelayMs: 50,
  maxRestartDelayMs: 2_000,
};

/** On a single core, event loop and writer take turns anyway; larger commits then leave more of it to both. */
const gatherTurnsOnOneCore = 16;

const defaultBusyTimeoutMs = 1_000;
/** Starting may wait longer than serving: another process may be migrating. */
const migrationBusyTimeoutMs = 10_000;

/** The stores, with the ledger as suites and benchmarks look at it too. */
export interface SqliteStores extends ServiceStores {
  readonly ledger: StoredLedger;
}

/** As `openSqliteStores`, for those who need the ledger alone. */
export async function openSqliteLedger(options: SqliteLedgerOptions): Promise<StoredLedger> {
  return (await openSqliteStores(options)).ledger;
}

/**
 * Opens the stores, bringing the file to this program's schema first. Rejects with `IncompatibleStoreError` for a file
 * of a newer version or another program, and where a log is not what the anchor says or the key is not its own; with `store_unavailable` or a file system error when it cannot be opened.
 */
export async function openSqliteStores(options: SqliteLedgerOptions): Promise<SqliteStores> {
  const { originPrefix, clock, random, logger } = options;
  requireOriginPrefix(originPrefix);
  const path = resolve(options.path);
  const anchorPath = resolve(options.anchorPath);
  const keyPath = resolve(options.keyPath);
  const paths = { path, anchorPath, keyPath };
  const prepared = await prepareStore({ ...paths, originPrefix, clock, random, busyTimeoutMs: migrationBusyTimeoutMs });
  for (const line of describeUndone(prepared.undone)) logger?.warn({}, `${line}; ${undoneRemedy}`);
  const keys = new KeyRing(prepared.keys, { keyPath, logger });
  // SQLite keeps its other files beside the file that a link leads to.
  const [realPath, realAnchorPath] = [realpathSync(path), realpathSync(anchorPath)];
  const links = [path, anchorPath].filter((each) => each !== realPath && each !== realAnchorPath);
  const data: Omit<WorkerData, "role"> = {
    path: realPath,
    anchorPath: realAnchorPath,
    storeId: prepared.storeId,
    files: [openedFile(realPath), ...links.map((link) => openedFile(link, true))],
    anchorFile: openedFile(realAnchorPath),
    originPrefix,
    busyTimeoutMs: options.busyTimeoutMs ?? defaultBusyTimeoutMs,
    connectionModule: (options.connection?.module ?? new URL("./connection.ts", import.meta.url)).href,
    connectionData: options.connection?.data,
  };
  const limits = { ...defaultThreadLimits, ...options.threads };
  const start = (role: WorkerData["role"]) => new StoreThread({ ...data, role }, limits, logger);
  const writer = start("writer");
  const reader = new LateThread(() => start("reader"), writer);
  const threads = { writer, reader, searcher: new LateThread(() => start("searcher")) };
  return openStores(threads, keys, options);
}

async function openStores(
  threads: StoreThreads,
  keys: KeyRing,
  { clock, random, openAnchor, commits, limits }: SqliteLedgerOptions,
): Promise<SqliteStores> {
  const store = await openSqliteStore({ threads, clock, random, keys });
  const anchor = await openAnchor?.(store, keys).catch(async (error: unknown) => {
    await store.close();
    throw error;
  });
  const gatherTurns = availableParallelism() === 1 ? gatherTurnsOnOneCore : 0;
  const ledger = new StoredLedger(store, keys, { ...defaultAppenderLimits, gatherTurns, ...limits }, anchor, commits);
  // One file has one writer, which gets on with all tenants or with none.
  return { ledger, shared: store, stuck: () => [] };
}
