/**
 * Opens the ledger of an embedded deployment: one SQLite file and four threads. One writes; one reads, started by the
 * first record or read; one searches, started by the first search; one copies the write-ahead log into the file, started
 * when that is long. The event loop does no I/O.
 */
import { existsSync, realpathSync } from "node:fs";
import { availableParallelism } from "node:os";
import { resolve } from "node:path";
import type { ReplayStore } from "../../auth/replay-store.ts";
import { singleFlight } from "../../base/timers.ts";
import type { PortionCounters } from "../../domain/ports.ts";
import { ledgerOver } from "../../ledger/append/ledger.ts";
import { type AppenderLimits, defaultAppenderLimits } from "../../ledger/append/limits.ts";
import { seedBytes } from "../../ledger/append/sequence.ts";
import { describeUndone, undoneRemedy } from "../../ledger/audit/undone-erasures.ts";
import type { LedgerStore } from "../../ledger/ports/store.ts";
import { requireOriginPrefix } from "../../ledger/tlog/log-name.ts";
import { openAnchor, readAnchor, type SqliteAnchor } from "../files/anchor.ts";
import { openConnection, readStoreId, requireSafeBlocks } from "../files/connection.ts";
import { IncompatibleStoreError } from "../files/errors.ts";
import { appendBatches } from "../sql/appending.ts";
import type { ServiceMachine, ServiceStores } from "../sql/backend.ts";
import { findUndone } from "../sql/erasure.ts";
import { KeyRing, SigningKeysOfStore } from "../sql/key-ring.ts";
import { heads } from "../sql/log-rows.ts";
import { LogTools } from "../sql/log-tools.ts";
import { ProofBatches } from "../sql/shared.ts";
import { admitKeys, checkAnchor, checkLogs } from "../sql/store-checks.ts";
import { type OpenedFile, openedFile } from "./file-identity.ts";
import { noteErasures } from "./noted-erasures.ts";
import { misplacedProblem, type StorePaths } from "./paths.ts";
import type { ThreadSetup, WorkerData } from "./protocol.ts";
import { SqliteQueries, type SqliteReader, transactOn } from "./queries.ts";
import { migrateSqlite, migrations, requireUnsealed } from "./schema.ts";
import { remote, StoreThread } from "./thread.ts";
import type { SqliteWriter } from "./writer.ts";

/**
 * Options of the ledger. Missing files are created, the key only for an empty store and anchor. Missing directories are
 * created too, the store's only if the key is new.
 */
export interface SqliteLedgerOptions extends StorePaths, ServiceMachine {
  /** Path of the file of the keys that sign checkpoints. */
  readonly keyPath: string;
  /** Prefix of a log's origin, before its random part, such as `ledger.example.org/logs`. */
  readonly originPrefix: string;
  /** Bounds of the queues and batches; default `defaultAppenderLimits`. */
  readonly limits?: Partial<AppenderLimits>;
  /** How long a write waits for another process. Default 1,000 ms, so that readiness reports in time. */
  readonly busyTimeoutMs?: number;
  /** How long a thread may work on a call. Default 10,000 ms: a commit of that time means a dead disk. */
  readonly responseTimeoutMs?: number;
  readonly setup?: ThreadSetup;
}

/**
 * On a single core, event loop and writer take turns anyway; larger commits leave more time to both. With more cores the
 * writer works while receipts are signed.
 */
const turnsOfLoop: Partial<AppenderLimits> =
  availableParallelism() === 1 ? { gatherTurns: 16 } : { tenantsAnsweredAtOnce: 8 };

const defaultBusyTimeoutMs = 1_000;
const defaultResponseTimeoutMs = 10_000;

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
  const { keys, undone, storeId } = await prepareStore({ ...options, path, anchorPath, keyPath });
  for (const line of describeUndone(undone)) logger?.warn({}, `${line}; ${undoneRemedy}`);
  // SQLite keeps its other files beside the target of a link.
  const [realPath, realAnchorPath] = [realpathSync(path), realpathSync(anchorPath)];
  const links = [path, anchorPath].filter((each) => each !== realPath && each !== realAnchorPath);
  const data: Omit<WorkerData, "role"> = {
    path: realPath,
    anchorPath: realAnchorPath,
    storeId,
    files: [openedFile(realPath), ...links.map((link) => openedFile(link, true))],
    anchorFile: openedFile(realAnchorPath),
    originPrefix,
    busyTimeoutMs: options.busyTimeoutMs ?? defaultBusyTimeoutMs,
    setup: options.setup,
  };
  const thread = (role: WorkerData["role"], onLongLog?: (files: readonly OpenedFile[]) => void) =>
    new StoreThread({ ...data, role }, options.responseTimeoutMs ?? defaultResponseTimeoutMs, logger, onLongLog);
  const checkpointer = thread("checkpointer");
  const checkpoint = singleFlight((files: readonly OpenedFile[]) => checkpointer.call("checkpoint", [files]));
  // After a failure the log stays longer, up to a length at which the writer copies it.
  const writing = thread("writer", (files) => void checkpoint(files).catch(() => {}));
  const [reading, searching] = [thread("reader"), thread("searcher")];
  const [writer, reader] = [remote<SqliteWriter>(writing), remote<SqliteReader>(reading)];
  // One writer, and so one lane.
  const proofs = new ProofBatches(
    (rows) => writer.noteProofs(rows, clock.now()),
    () => "",
  );
  const store: LedgerStore & ReplayStore & PortionCounters = {
    async write(batches) {
      const texts = batches.map((batch) => ({ ...batch, records: batch.records.map(({ text }) => text) }));
      const seed = random(new Uint8Array(batches.reduce((sum, { records }) => sum + seedBytes(records.length), 0)));
      const results = await keys.following((signingKey) => writer.append(texts, seed, clock.now(), signingKey));
      // New records will be read by citations.
      void reading.start();
      return results;
    },
    find: reader.find,
    proven: reader.proven,
    registrations: reader.registrations,
    search: remote<SqliteReader>(searching).search,
    logs: reader.logs,
    head: (name) => keys.following((signingKey) => writer.head(name, signingKey)),
    tile: reader.tile,
    consistencyProof: reader.consistencyProof,
    multiProof: reader.multiProof,
    policyRevision: reader.policyRevision,
    cosignatures: reader.cosignatures,
    storeCosignatures: writer.storeCosignatures,
    keepPolicyRevision: writer.keepPolicyRevision,
    firstUse: proofs.firstUse.bind(proofs),
    takePortion: (limit, wanted) => writer.takePortion(limit, wanted, clock.now()),
    giveBackPortion: writer.giveBackPortion,
    /** Writes, and requires a running reader thread, if one was started, and the store's keys. */
    async check() {
      await keys.following((signingKey) => writer.probe(clock.now(), signingKey));
      if (reading.isStarted) await reader.probe();
    },
    /** The writer goes last: the last connection to close copies the write-ahead log into the file. */
    async close() {
      for (const each of [searching, reading, checkpointer, writing]) await each.close();
    },
  };
  try {
    await writing.start();
    const anchor = await openAnchor?.(store, keys);
    const ledger = ledgerOver(store, keys, {
      ...{ anchor, events },
      limits: { ...defaultAppenderLimits, ...turnsOfLoop, ...options.limits },
    });
    // One file has one writer: it is stuck for all tenants or for none.
    return { ledger, shared: store, stuck: () => [] };
  } catch (error) {
    await store.close();
    throw error;
  }
}

/**
 * Brings the store to this program's schema, checks every log against the anchor, loads the keys, and returns the
 * erasures to carry out again. A key is made only if store and anchor are both empty. Concurrent starts take turns.
 * Throws `IncompatibleStoreError` naming every problem; nothing may be signed then.
 */
async function prepareStore(options: SqliteLedgerOptions) {
  const { path, anchorPath, keyPath, originPrefix, clock, random, logger } = options;
  requireNewPlace(options);
  for (const each of [path, anchorPath]) requireSafeBlocks(each);
  const isNew = migrateSqlite({ path, random }).length === migrations.length;
  using anchor = openAnchor(anchorPath);
  using connection = openConnection({ path, readOnly: false });
  const queries = new SqliteQueries(connection);
  const keys = await transactOn(connection, async () => {
    // Again, under the lock: a copy to this store may have begun meanwhile.
    requireUnsealed(connection, path);
    await checkOwnAnchor(queries, anchor);
    await checkLogs(queries, originPrefix, clock.now());
    const ring = new KeyRing(await admitKeys(queries, { anchor, keyPath, random }), keyPath, logger);
    const keys = new SigningKeysOfStore(ring);
    await keys.follow(queries);
    // Hands every log over to the current key: the old one is valid up to that leaf only. No origin is made here.
    const tools = new LogTools({ anchor, originPrefix: "", clock, random, keys });
    for (const { tenantId, keyPosition } of await heads(queries))
      if (keyPosition < keys.position)
        await appendBatches(queries, [{ tenantId, records: [] }], { taking: "apart", tools });
    return ring;
  });
  // A rotation has moved the heads.
  anchor.advance(await heads(queries));
  const undone = await findUndone(queries, anchor.erasures());
  await noteErasures(queries, anchor);
  // A mistyped path is found by this line.
  if (isNew) logger?.info({ path }, "new store");
  return { keys, undone, storeId: readStoreId(connection) };
}

/** A missing store is not replaced by an empty one if its anchor notes logs, or its folder may be mistyped. */
function requireNewPlace({ path, anchorPath, keyPath }: SqliteLedgerOptions): void {
  if (existsSync(path)) return;
  const misplaced = misplacedProblem(path, keyPath);
  if (misplaced !== undefined) throw new IncompatibleStoreError(misplaced);
  using anchor = readAnchor(anchorPath);
  if (anchor?.storeId() === undefined) return;
  throw new IncompatibleStoreError(
    `${path} is missing, and its anchor ${anchorPath} exists: put the newest store back. Where there is none any ` +
      "more, start with an empty store and another anchor (SVC_STORE, SVC_ANCHOR); the old anchor says what was lost.",
  );
}

/** A store that had an anchor is not served without it. */
async function checkOwnAnchor(queries: SqliteQueries, anchor: SqliteAnchor): Promise<void> {
  const { connection } = queries;
  const hadAnchor = connection.prepare("SELECT anchored FROM store").get()?.anchored === 1;
  if (hadAnchor && anchor.storeId() === undefined)
    throw new IncompatibleStoreError(
      `${anchor.path} is new, but this store had an anchor: without it, nothing shows whether the store is an older ` +
        "copy. Put the anchor back, or set SVC_ANCHOR to it; if it is lost, see `ledger anchor adopt`.",
    );
  await checkAnchor(queries, anchor);
  // Also of a store that was restored from a copy that is older than this flag.
  connection.exec("UPDATE store SET anchored = 1");
}
