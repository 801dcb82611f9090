/** Checks of a store on any database: against its anchor, before it may be written to, and what operators learn about it. */
import type { RandomFill, TenantId } from "../../base/ids.ts";
import type { OrphanRow } from "../../ledger/ports/archive.ts";
import { type LogState, type TimedLog, UnsoundLogError } from "../../ledger/ports/store.ts";
import { originPrefixProblem } from "../../ledger/tlog/log-name.ts";
import { MissingTileError } from "../../ledger/tlog/tile-nodes.ts";
import { type Hash, sameHash } from "../../ledger/tlog/tree.ts";
import type { SqliteAnchor } from "../files/anchor.ts";
import { IncompatibleStoreError } from "../files/errors.ts";
import { makeKeys, readKeyFile, type SigningKeys } from "../files/key-file.ts";
import { headOfTenant, heads, isTimeAccepted, readPublicKeys, readTree } from "./log-rows.ts";
import type { Queries, Row } from "./queries.ts";

const identity = "SELECT store_id FROM store WHERE singleton = 1";

/** Reads the store's identity. Rejects if it is missing. */
export async function readStoreId(queries: Queries): Promise<string> {
  const [row] = (await queries.query(identity, [])).rows;
  if (typeof row?.store_id !== "string") throw new Error("The store has lost its identity.");
  return row.store_id;
}

/** A contradiction in one tenant's log, or in the whole store if the tenant is undefined. */
export interface AnchorFinding {
  readonly tenantId: TenantId | undefined;
  readonly message: string;
}

/** Lists every difference between the store and its anchor. */
export async function findAnchorProblems(
  queries: Queries,
  anchor: Pick<SqliteAnchor, "path" | "storeId" | "all">,
): Promise<readonly AnchorFinding[]> {
  const anchored = anchor.storeId();
  if (anchored !== undefined && anchored !== (await readStoreId(queries)))
    return [{ tenantId: undefined, message: `${anchor.path} is the anchor of another store` }];
  const findings: AnchorFinding[] = [];
  for (const log of anchor.all()) {
    const message = await problemOf(queries, await headOfTenant(queries, log.tenantId), log);
    if (message !== undefined) findings.push({ tenantId: log.tenantId, message });
  }
  return findings;
}

/** Rejects with `UnsoundLogError` if the log contradicts its anchor. */
export async function refuseUnsound(
  queries: Queries,
  log: LogState | undefined,
  anchored: LogState | undefined,
): Promise<void> {
  const problem = anchored && (await problemOf(queries, log, anchored));
  if (problem !== undefined) throw new UnsoundLogError(problem);
}

/** Throws `UnsoundLogError` if the log contradicts its anchor. */
export function requireSound(
  anchored: LogState | undefined,
  log: LogState | undefined,
  rootAt: (size: number) => Hash,
): void {
  if (anchored === undefined) return;
  const problem = anchorProblem(anchored, log, rootAt);
  if (problem !== undefined) throw new UnsoundLogError(problem);
}

/** As `anchorProblem`. The root at the anchored size is read from tiles if the log has grown since. */
async function problemOf(queries: Queries, log: LogState | undefined, anchored: LogState): Promise<string | undefined> {
  const isGrown = log !== undefined && anchored.size < log.size;
  const tree = isGrown ? await readTree(queries, anchored.tenantId, anchored.size) : undefined;
  return anchorProblem(anchored, log, () => tree?.root() as Hash);
}

/**
 * Returns the contradiction between a log and its anchor, for the operator; undefined if there is none. A missing tile
 * is a problem of the log.
 */
function anchorProblem(
  { origin, size, root }: LogState,
  log: LogState | undefined,
  rootAt: (size: number) => Hash,
): string | undefined {
  if (log === undefined) return `log ${origin} with ${size} leaves is missing from the store`;
  if (log.origin !== origin) return `log ${origin} was replaced by ${log.origin}`;
  if (log.size < size) return `log ${origin} has ${log.size} leaves, and had ${size}: the store is an older copy`;
  try {
    if (sameHash(log.size === size ? log.root : rootAt(size), root)) return undefined;
  } catch (error) {
    if (error instanceof MissingTileError) return error.message;
    throw error;
  }
  return `log ${origin} was rewritten before leaf ${size}`;
}

const noteKey = `INSERT INTO signing_keys (position, public_key)
  SELECT coalesce(max(position), -1) + 1, $1::bytea FROM signing_keys`;

const whatToDo =
  "Put the newest copy of the store back, with its -wal file if there is one. If there is no newer one, keep this one " +
  "for `ledger verify` and `ledger search`, and start with an empty store and another anchor (SVC_STORE, SVC_ANCHOR).";

/**
 * Notes all logs in a new anchor. Rejects with `IncompatibleStoreError` naming every difference to one in use.
 * @param confirm makes durable what was read; absent if whatever can be read is
 */
export async function checkAnchor(
  queries: Queries,
  anchor: SqliteAnchor,
  confirm?: () => Promise<unknown>,
): Promise<void> {
  const storeId = await readStoreId(queries);
  let anchored = anchor.storeId();
  if (anchored === undefined) {
    const logs = await heads(queries);
    await confirm?.();
    anchored = anchor.adopt(storeId, logs);
  }
  if (anchored !== storeId)
    throw new IncompatibleStoreError(
      `${anchor.path} is the anchor of another store: nothing may be signed. Put the store or the anchor back that ` +
        "belong together (SVC_STORE, SVC_ANCHOR).",
    );
  const problems = (await findAnchorProblems(queries, anchor)).map(({ message }) => message);
  if (problems.length > 0)
    throw new IncompatibleStoreError(
      `The store is not what its anchor says: nothing may be signed.\n${problems.join("\n")}\n${whatToDo}`,
    );
}

/**
 * Rejects with `IncompatibleStoreError` if the store has logs, and none with the prefix of new ones; or if a log is ahead
 * of the clock, and no operator accepted its time.
 */
export async function checkLogs(queries: Queries, originPrefix: string, nowMs: number): Promise<void> {
  const origins = (await heads(queries)).map(({ origin }) => origin);
  const problem = originPrefixProblem(origins, originPrefix);
  if (problem !== undefined) throw new IncompatibleStoreError(problem, "SVC_LEDGER_ORIGIN");
  // Times never go back within a log: until the clock reaches the newest time, new records would get that time.
  const [ahead] = await logsAhead(queries, nowMs);
  if (ahead !== undefined)
    throw new IncompatibleStoreError(
      `log ${ahead.origin} has a record of ${new Date(ahead.lastRecordedAtMs).toISOString()}, and this machine's clock ` +
        `says ${new Date(nowMs).toISOString()}: set the clock right. If it is right, and the clock was wrong that wrote ` +
        "the record, see `ledger clock accept`.",
    );
}

/**
 * Returns the keys of the file, which must hold the key that signs the store's logs, and notes the current one; a key
 * is made only if store and anchor are empty. Must be called under a lock.
 */
export async function admitKeys(
  queries: Queries,
  { anchor, keyPath, random }: { anchor: SqliteAnchor | undefined; keyPath: string; random: RandomFill },
): Promise<SigningKeys> {
  const previous = (await readPublicKeys(queries)).at(-1);
  const hasLogs = (await heads(queries)).length > 0;
  const isEmpty = !hasLogs && previous === undefined && (anchor === undefined || anchor.all().length === 0);
  const keys = readKeyFile(keyPath) ?? (isEmpty ? makeKeys(keyPath, random) : undefined);
  if (keys === undefined)
    throw new IncompatibleStoreError(
      `${keyPath} is missing, and this store has a key or logs. Put the key back that signs them: every replica has the ` +
        "same one. If nothing was ever signed, make one with `keys generate`.",
      "SVC_LEDGER_KEY",
    );
  const [current, ...retiring] = keys;
  if (previous !== undefined && sameHash(current.publicKey, previous)) return keys;
  // Only the holder of the old key may hand over to a new one.
  if (previous !== undefined && !retiring.some(({ publicKey }) => sameHash(publicKey, previous)))
    throw new IncompatibleStoreError(`${keyPath} is not the key that signs the logs of this store.`, "SVC_LEDGER_KEY");
  await queries.query(noteKey, [current.publicKey]);
  return keys;
}

/** Bound of the rows named per table. */
const maxNamed = 16;

const leafName = "tenant_id, 'leaf ' || leaf_index AS name";
const recordName = "own.tenant_id, 'record ' || own.record_id AS name";
const behindHead = "LEFT JOIN log_heads USING (tenant_id) WHERE size IS NULL OR leaf_index >= size";
const withoutEntry = "AS own LEFT JOIN entries USING (tenant_id, record_id) WHERE entries.leaf_index IS NULL";

const orphanRows = {
  entries: `SELECT ${leafName} FROM entries ${behindHead}`,
  openings: `SELECT ${recordName} FROM /*main.*/openings ${withoutEntry}`,
  erasures: `SELECT ${recordName} FROM erasures ${withoutEntry}`,
  legal_holds: `SELECT ${recordName} FROM legal_holds ${withoutEntry} AND own.record_id <> ''`,
  kept_answers: `SELECT ${leafName} FROM kept_answers ${behindHead}`,
  search_segments: `SELECT tenant_id, 'leaf ' || (end_leaf - 1) AS name
                      FROM search_segments LEFT JOIN log_heads USING (tenant_id)
                     WHERE size IS NULL OR end_leaf > size`,
  registered_artifacts: `SELECT DISTINCT ${leafName} FROM registered_artifacts ${behindHead}`,
  // A tile exists from its first whole hash on, which is of 256^level leaves. No log has leaves for level 7.
  tiles: `SELECT tenant_id, 'tile ' || tile_index || ' of level ' || level AS name
            FROM tiles LEFT JOIN log_heads USING (tenant_id)
           WHERE size IS NULL OR level > 6 OR size < ((tile_index * 256 + 1) << (8 * level))`,
};

/** Finds rows without a log. If a table has many, only some. */
export async function findOrphanRows(queries: Queries): Promise<readonly OrphanRow[]> {
  const found: OrphanRow[] = [];
  for (const [table, sql] of Object.entries(orphanRows)) {
    const statement = `${sql} ORDER BY tenant_id, name LIMIT ${maxNamed}`;
    for (const { tenant_id, name } of (await queries.query(statement, [])).rows)
      found.push({ tenantId: tenant_id as TenantId, table, name: name as string });
  }
  return found;
}

/** Throws `IncompatibleStoreError` if the schema has more steps than this program knows. */
export function requireKnownVersion(store: string, version: number, known: number): void {
  if (version > known)
    throw new IncompatibleStoreError(
      `${store} has schema version ${version}; this program knows versions up to ${known}. It was written by a newer ` +
        "version of the service, or by one before 0.2.0: use that one.",
    );
}

/** Clocks of machines differ by seconds; by more only if one of them is wrong. */
const toleranceMs = 5 * 60_000;

/** Whether the log's newest time is more than five minutes ahead of the clock. */
export function isAhead({ lastRecordedAtMs }: Pick<TimedLog, "lastRecordedAtMs">, nowMs: number): boolean {
  return lastRecordedAtMs > nowMs + toleranceMs;
}

/** Returns the logs that are ahead of the clock, and whose time no operator has accepted. */
export async function logsAhead(queries: Queries, nowMs: number): Promise<readonly TimedLog[]> {
  const ahead: TimedLog[] = [];
  for (const head of await heads(queries))
    if (isAhead(head, nowMs) && !(await isTimeAccepted(queries, head))) ahead.push(head);
  return ahead;
}

export interface CopyState {
  readonly part: "source" | "target";
  /** Identity of the other store. */
  readonly otherStoreId: string;
  /** Whether the target may be served: the seal of its source is then permanent. */
  readonly isFinal: boolean;
}

export const copyState = "SELECT part, other_store_id, is_final FROM store_copy WHERE singleton = 1";

/** Returns the part that the store has in a copy; undefined if it has none. */
export async function readCopyState(queries: Queries): Promise<CopyState | undefined> {
  return toCopyState((await queries.query(copyState, [])).rows[0]);
}

export function toCopyState(row: Row | undefined): CopyState | undefined {
  if (row === undefined) return undefined;
  const part = row.part === "source" ? "source" : "target";
  return { part, otherStoreId: row.other_store_id as string, isFinal: row.is_final === 1 };
}

/** Throws `IncompatibleStoreError` if the store takes part in a copy. `store` begins its message. */
export function requireServable(state: CopyState | undefined, store: string): void {
  const problem = copyProblem(state);
  if (problem !== undefined) throw new IncompatibleStoreError(`${store} ${problem}`);
}

/** Returns why no service may use a store that takes part in a copy, after its name; undefined if it does not. */
export function copyProblem(state: CopyState | undefined): string | undefined {
  if (state?.part === "target")
    return "is not complete: a store is being copied to it, or such a copy was broken off: finish it with `store copy`.";
  if (state?.isFinal === true)
    return `is sealed: it was copied to the store ${state.otherStoreId}, which continues its logs.`;
  return (
    state &&
    "is sealed: a copy to another store is under way, or was broken off. Run `store copy` again, or take the seal off " +
      "with `store copy --abandon`."
  );
}
