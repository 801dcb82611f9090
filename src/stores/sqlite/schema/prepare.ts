/** Checks before a store may be written to: schema, anchor and key. */
import { existsSync } from "node:fs";
import type { Clock } from "../../../base/clock.ts";
import type { RandomFill } from "../../../base/ids.ts";
import type { ErasureStatement } from "../../../ledger/ports/record.ts";
import type { UndoneErasure } from "../../../ledger/ports/records-administration.ts";
import { rotationRecord } from "../../../ledger/record/operator-records.ts";
import { originPrefixProblem } from "../../../ledger/tlog/log-name.ts";
import { sameHash } from "../../../ledger/tlog/tree.ts";
import { IncompatibleStoreError } from "../../errors.ts";
import { makeKeys, readKeyFile, type SigningKeys } from "../../key-file.ts";
import { findAnchorProblems } from "../../sql/anchoring.ts";
import { findUndone } from "../../sql/erasure.ts";
import { heads, isTimeAccepted } from "../../sql/log-rows.ts";
import { aheadError, isAhead } from "../../store-checks.ts";
import { openConnection, readStoreId } from "../connection.ts";
import { noteErasures } from "../erasure/noted-erasures.ts";
import { requireSafeBlocks } from "../files.ts";
import { anchorConnection, createAnchor, SqliteAnchor } from "../log/anchor.ts";
import { LogWriter } from "../log/log-writer.ts";
import type { StorePaths } from "../paths.ts";
import { SqliteQueries, transactOn } from "../queries.ts";
import { migrateSqlite, requireUnsealed } from "./migrate.ts";

export interface PrepareOptions extends StorePaths {
  /** Prefix of the origins of new logs. */
  readonly originPrefix: string;
  readonly clock: Clock;
  readonly random: RandomFill;
  /** How long to wait for a concurrent start on the same store. Milliseconds. */
  readonly busyTimeoutMs: number;
}

const whatToDo =
  "Put the newest copy of the store back, with its -wal file where there is one. Where there is no newer one, keep this " +
  "one for `ledger verify` and `ledger search`, and begin anew with an empty store and another anchor (SVC_STORE, SVC_ANCHOR).";

export interface PreparedStore {
  readonly keys: SigningKeys;
  /** Erasures to carry out again; readers get "erased" until then. */
  readonly undone: readonly UndoneErasure[];
  /** Identity of the store. */
  readonly storeId: string;
}

/**
 * Brings the store to this program's schema, checks every log against the anchor, and loads the keys. A key is made
 * only if store and anchor are both empty. Concurrent starts take turns. Throws `IncompatibleStoreError` naming every
 * problem; nothing may be signed then.
 */
export async function prepareStore(options: PrepareOptions): Promise<PreparedStore> {
  const { path, anchorPath, busyTimeoutMs } = options;
  requireAnchoredStore(options);
  for (const each of [path, anchorPath]) requireSafeBlocks(each);
  migrateSqlite(options);
  createAnchor(anchorPath, busyTimeoutMs);
  const connection = openConnection({ path, busyTimeoutMs, readOnly: false });
  try {
    const anchor = SqliteAnchor.open({ ...anchorConnection, path: anchorPath, busyTimeoutMs });
    try {
      const queries = new SqliteQueries(connection);
      const keys = await transactOn(connection, async () => {
        // Again, under the lock: a copy to this store may have begun meanwhile.
        requireUnsealed(connection, path);
        await checkAnchor(queries, anchor, anchorPath);
        await checkLogs(queries, options);
        return admitKeys(queries, anchor, options);
      });
      // A rotation has moved the heads.
      anchor.advance(await heads(queries));
      const undone = await findUndone(queries, [...anchor.erasures()]);
      noteErasures(connection, anchor);
      return { keys, undone, storeId: readStoreId(connection) };
    } finally {
      anchor.close();
    }
  } finally {
    connection.close();
  }
}

/** A missing store is not replaced by an empty one if its anchor notes logs. */
function requireAnchoredStore({ path, anchorPath, busyTimeoutMs }: PrepareOptions): void {
  if (existsSync(path) || !existsSync(anchorPath)) return;
  const anchor = SqliteAnchor.open({ path: anchorPath, busyTimeoutMs, readOnly: true });
  try {
    if (anchor.storeId() === undefined) return;
    throw new IncompatibleStoreError(
      `${path} is missing, and its anchor ${anchorPath} is there: put the newest store back. Where there is none any ` +
        "more, begin anew with an empty store and another anchor (SVC_STORE, SVC_ANCHOR); the old anchor says what was lost.",
    );
  } finally {
    anchor.close();
  }
}

async function checkAnchor(queries: SqliteQueries, anchor: SqliteAnchor, anchorPath: string): Promise<void> {
  const { connection } = queries;
  const storeId = readStoreId(connection);
  const anchored = anchor.storeId();
  if (anchored === undefined) {
    if (connection.prepare("SELECT anchored FROM store").get()?.anchored === 1) {
      throw new IncompatibleStoreError(
        `${anchorPath} is new, but this store had an anchor: without it nobody can tell whether the store is an older ` +
          "copy. Put the anchor back, or set SVC_ANCHOR to it; where it is lost, see `ledger anchor adopt`.",
      );
    }
    anchor.adopt(storeId, await heads(queries));
    connection.exec("UPDATE store SET anchored = 1");
    return;
  }
  if (anchored !== storeId)
    throw new IncompatibleStoreError(
      `${anchorPath} is the anchor of another store: nothing may be signed. Put the store or the anchor back that ` +
        "belong together (SVC_STORE, SVC_ANCHOR).",
    );
  const problems = (await findAnchorProblems(queries, anchor, anchorPath)).map(({ message }) => message);
  if (problems.length > 0)
    throw new IncompatibleStoreError(
      `The store is not what its anchor says: nothing may be signed.\n${problems.join("\n")}\n${whatToDo}`,
    );
  // The store was restored from a copy that is older than this flag, and every log agrees with the anchor.
  connection.exec("UPDATE store SET anchored = 1");
}

async function checkLogs(queries: SqliteQueries, { originPrefix, clock }: PrepareOptions): Promise<void> {
  const logs = await heads(queries);
  const problem = originPrefixProblem(
    logs.map(({ origin }) => origin),
    originPrefix,
  );
  if (problem !== undefined) throw new IncompatibleStoreError(problem);
  const nowMs = clock.now();
  for (const head of logs)
    if (isAhead(head, nowMs) && !(await isTimeAccepted(queries, head))) throw aheadError(head, nowMs);
}

/** Returns the keys of the file, if this store's logs are signed with them. */
async function admitKeys(queries: SqliteQueries, anchor: SqliteAnchor, options: PrepareOptions): Promise<SigningKeys> {
  const { connection } = queries;
  const { keyPath, random } = options;
  const known = connection.prepare("SELECT public_key FROM signing_keys ORDER BY position DESC LIMIT 1").get();
  const hasLogs = connection.prepare("SELECT 1 FROM log_heads LIMIT 1").get() !== undefined;
  const isEmpty = !hasLogs && known === undefined && anchor.all().next().done === true;
  const keys = readKeyFile(keyPath) ?? (isEmpty ? makeKeys(keyPath, random) : undefined);
  if (keys === undefined) {
    throw new IncompatibleStoreError(
      `${keyPath} is missing, and this store has logs. Put the key back that signed them; where they were never ` +
        "signed, make one with `keys generate`.",
    );
  }
  const [current, ...retiring] = keys;
  const previous = known?.public_key as Uint8Array | undefined;
  if (previous !== undefined && sameHash(current.publicKey, previous)) return keys;
  // Only the holder of the old key may hand over to a new one.
  if (previous !== undefined && !retiring.some(({ publicKey }) => sameHash(publicKey, previous)))
    throw new IncompatibleStoreError(`${keyPath} is not the key that signs the logs of this store.`);
  const { publicKey, statement } = current;
  await admitKey(queries, anchor, { current: publicKey, previous, statement, ...options });
  return keys;
}

/** Makes a key the one that signs the logs of a store. */
export interface Admission {
  /** 32 bytes, like `previous`. */
  readonly current: Uint8Array;
  /** The key that signed until now; undefined if there is none. */
  readonly previous: Uint8Array | undefined;
  readonly statement: ErasureStatement | undefined;
  readonly clock: Clock;
  readonly random: RandomFill;
}

/**
 * Notes the key, inside the caller's transaction. If it follows another, every log gets a leaf that says so: the old
 * key is valid up to that leaf only.
 */
export async function admitKey(queries: SqliteQueries, anchor: SqliteAnchor, admission: Admission): Promise<void> {
  const { current, previous, statement, clock, random } = admission;
  const { connection } = queries;
  connection
    .prepare("INSERT INTO signing_keys (position, public_key) SELECT count(*), ? FROM signing_keys")
    .run(current);
  if (previous === undefined) return;
  // Every log exists, so no origin is made here.
  const writer = new LogWriter(queries, anchor, "");
  for (const { tenantId } of await heads(queries)) {
    const record = rotationRecord(tenantId, { current, previous, statement, clock, random });
    await writer.appendOwn(tenantId, [record], admission);
  }
  connection.exec("UPDATE log_heads SET key_position = (SELECT max(position) FROM signing_keys)");
}
