/** Opens the ledger of an embedded deployment. */
import { realpathSync } from "node:fs";
import { availableParallelism } from "node:os";
import { resolve } from "node:path";
import { ledgerOver, type ServiceLedger } from "../../ledger/append/ledger.ts";
import { type AppenderLimits, defaultAppenderLimits } from "../../ledger/append/limits.ts";
import { describeUndone, undoneRemedy } from "../../ledger/audit/undone-erasures.ts";
import { requireOriginPrefix } from "../../ledger/tlog/log-name.ts";
import type { ServiceMachine, ServiceStores } from "../sql/backend.ts";
import { KeyRing } from "../sql/key-ring.ts";
import { type OpenedFile, openedFile } from "./file-identity.ts";
import type { StorePaths } from "./paths.ts";
import { prepareStore } from "./prepare.ts";
import type { WorkerData } from "./protocol.ts";
import { sqliteStore } from "./store.ts";
import { StoreThread, type ThreadLimits } from "./thread.ts";

/** Options of the ledger. Missing files and directories are created; the key only for an empty store and anchor. */
export interface SqliteLedgerOptions extends StorePaths, ServiceMachine {
  /** Prefix of a log's origin, before its random part, such as `ledger.example.org/logs`. */
  readonly originPrefix: string;
  /** Bounds of the queues and batches; default `defaultAppenderLimits`. */
  readonly limits?: Partial<AppenderLimits>;
  /** How long a write waits for another process. Default 1,000 ms, so that readiness reports in time. */
  readonly busyTimeoutMs?: number;
  /** Bounds of the store's threads; default `defaultThreadLimits`. */
  readonly threads?: Partial<ThreadLimits>;
  /** Replaces `openConnection` in the store's threads: a module that exports one, and its argument. */
  readonly connection?: { readonly module: URL; readonly data: unknown };
}

/** Defaults: a commit of ten seconds means a dead disk; a thread restarts before a client's second attempt. */
export const defaultThreadLimits: ThreadLimits = {
  responseTimeoutMs: 10_000,
  minRestartDelayMs: 50,
  maxRestartDelayMs: 2_000,
};

/** On a single core, event loop and writer take turns anyway; larger commits leave more time to both. */
const gatherTurnsOnOneCore = 16;

const defaultBusyTimeoutMs = 1_000;
/** Starting may wait longer than serving: another process may be migrating. */
const migrationBusyTimeoutMs = 10_000;

/** As `openSqliteStores`, for callers that need the ledger alone. */
export async function openSqliteLedger(options: SqliteLedgerOptions): Promise<ServiceLedger> {
  return (await openSqliteStores(options)).ledger;
}

/**
 * Opens the stores, after bringing the file to this program's schema. Rejects with `IncompatibleStoreError` for a file
 * of a newer version or another program, and if a log contradicts the anchor or the key is not the store's own; with
 * `store_unavailable` or a file system error if it cannot be opened.
 */
export async function openSqliteStores(options: SqliteLedgerOptions): Promise<ServiceStores> {
  const { originPrefix, clock, random, logger, openAnchor, events } = options;
  requireOriginPrefix(originPrefix);
  const path = resolve(options.path);
  const anchorPath = resolve(options.anchorPath);
  const keyPath = resolve(options.keyPath);
  const paths = { path, anchorPath, keyPath };
  const prepared = await prepareStore({ ...paths, originPrefix, clock, random, busyTimeoutMs: migrationBusyTimeoutMs });
  for (const line of describeUndone(prepared.undone)) logger?.warn({}, `${line}; ${undoneRemedy}`);
  const keys = new KeyRing(prepared.keys, { keyPath, logger });
  // SQLite keeps its other files beside the target of a link.
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
    connectionModule: (options.connection?.module ?? new URL("../files/connection.ts", import.meta.url)).href,
    connectionData: options.connection?.data,
  };
  const limits = { ...defaultThreadLimits, ...options.threads };
  const thread = (role: WorkerData["role"], more: Partial<ConstructorParameters<typeof StoreThread>[1]> = {}) =>
    new StoreThread({ ...data, role }, { limits, logger, ...more });
  const checkpointer = thread("checkpointer");
  const writer = thread("writer", { onLongLog: checkpointing(checkpointer) });
  const threads = {
    writer,
    reader: thread("reader"),
    searcher: thread("searcher"),
    checkpointer,
  };
  const store = sqliteStore({ threads, clock, random, keys });
  try {
    writer.start();
    await writer.ready;
    const anchor = await openAnchor?.(store, keys);
    const gatherTurns = availableParallelism() === 1 ? gatherTurnsOnOneCore : 0;
    const ledger = ledgerOver(store, keys, {
      ...{ anchor, events },
      limits: { ...defaultAppenderLimits, gatherTurns, ...options.limits },
    });
    // One file has one writer: it is stuck for all tenants or for none.
    return { ledger, shared: store, stuck: () => [] };
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** Copies the write-ahead log into the file in another thread than the writer's, once at a time. */
function checkpointing(checkpointer: StoreThread): (files: readonly OpenedFile[]) => void {
  let isUnderWay = false;
  return (files) => {
    if (isUnderWay) return;
    isUnderWay = true;
    const ended = () => {
      isUnderWay = false;
    };
    // After a failure the log stays longer, up to a length at which the writer copies it.
    checkpointer.call({ call: "checkpoint", args: [files] }).then(ended, ended);
  };
}
