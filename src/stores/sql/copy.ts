/**
 * Moves a store to an empty one, which continues its logs. The source is sealed first; the target is not served until
 * everything has arrived and every log was audited there. An interrupted copy can be run again.
 */
import type { Clock } from "../../base/clock.ts";
import type { RandomFill } from "../../base/ids.ts";
import { auditLog, rotationProblem } from "../../ledger/audit/audit.ts";
import { describeOrphans } from "../../ledger/audit/companions.ts";
import { describeUndone } from "../../ledger/audit/undone-erasures.ts";
import type { LogState } from "../../ledger/ports/store.ts";
import { sameHash } from "../../ledger/tlog/tree.ts";
import { sealAnchor } from "../files/anchor.ts";
import { IncompatibleStoreError } from "../files/errors.ts";
import { readKeyFile } from "../files/key-file.ts";
import type { OperatorArchive } from "./archive.ts";
import type { StoreDatabase } from "./backend.ts";
import type { Queries, Transaction, Value } from "./queries.ts";
import { copiedTables, type Table } from "./schema.ts";
import { readCopyState, readStoreId, requireServable } from "./store-checks.ts";

export interface CopyOptions {
  readonly source: StoreDatabase;
  readonly target: StoreDatabase;
  /** Path of the file of the keys that sign checkpoints. */
  readonly keyPath: string;
  readonly clock: Clock;
  readonly random: RandomFill;
  /** Called with each step, for display. */
  readonly onProgress?: (text: string) => void;
}

export interface CopiedStore {
  readonly targetStoreId: string;
  /** State of the logs when the source was sealed, by tenant; empty if an earlier run finished the copy. */
  readonly logs: readonly LogState[];
  readonly wasFinished: boolean;
}

/** The copied store; or why nothing was copied, or the copy must not be used, for the operator. */
type CopyResult = CopiedStore | { readonly problems: readonly string[] };

/** A run of a copy. */
interface Copying extends CopyOptions {
  /** Distinguishes it from every other run. */
  readonly attempt: string;
  /** Rows that expired by then are not copied. Milliseconds since the Unix epoch. */
  readonly nowMs: number;
}

const sealedTables = ["store", ...copiedTables.map(({ name }) => name)];
/** The row that gateways lock at start-up: a starting gateway has noted its key by then, or finds the target marked. */
const lockStore = "SELECT 1 FROM store WHERE singleton = 1 FOR UPDATE";
/** A seal that is final stays so. */
const take = `INSERT INTO store_copy (singleton, part, other_store_id, attempt, is_final) VALUES (1, $1, $2, $3, 0)
  ON CONFLICT (singleton) DO UPDATE SET other_store_id = excluded.other_store_id, attempt = excluded.attempt`;
/** Locks the row against another run of the copy. */
const hold = "SELECT 1 FROM store_copy WHERE part = 'target' AND attempt = $1 FOR SHARE";
const finishSeal = "UPDATE store_copy SET is_final = 1 WHERE part = 'source' AND attempt = $1";
const finishTarget = "DELETE FROM store_copy WHERE part = 'target'";
const dropSeal = "DELETE FROM store_copy WHERE part = 'source' AND is_final = 0";

/**
 * Copies. The source is sealed only after it passed its audit. If this rejects, or resolves with problems, the target
 * is not served. Rejects with `IncompatibleStoreError` if one of the two is unsuitable, with an error of a driver or
 * the file system if one cannot be used.
 */
export async function copyStore(options: CopyOptions): Promise<CopyResult> {
  const found = await previewCopy(options);
  if ("problems" in found || found.wasFinished) return found;
  const { source, target, random } = options;
  const attempt = Buffer.from(random(new Uint8Array(16))).toString("hex");
  const copying = { ...options, attempt, nowMs: options.clock.now() };
  await seal(source, found.targetStoreId, attempt);
  await begin(target, await readStoreId(source), attempt);
  for (const table of copiedTables) await copyTable(table, copying);
  await held(copying, (transaction) => run(transaction, target.completion));
  const { logs, problems } = await auditTarget(copying);
  if (problems.length > 0) return { problems };
  // In this order: a seal that is not final proves that the target was never served.
  if ((await source.transact((transaction) => transaction.query(finishSeal, [attempt]))).count !== 1)
    throw new IncompatibleStoreError("The seal was taken off the source, or is another copy's now: this one ends.");
  await held(copying, (transaction) => transaction.query(finishTarget, []));
  return { targetStoreId: found.targetStoreId, logs, wasFinished: false };
}

/** Reports what `copyStore` would do now. Seals and writes nothing. Rejects like it. */
export async function previewCopy(options: CopyOptions): Promise<CopyResult> {
  const { source, target } = options;
  const targetStoreId = await readStoreId(target);
  const [from, to] = [await readCopyState(source), await readCopyState(target)];
  const isOfBoth = from?.otherStoreId === targetStoreId;
  if (from?.isFinal === true && isOfBoth && to === undefined) return { targetStoreId, logs: [], wasFinished: true };
  if (from?.part === "target" || (from?.isFinal === true && !isOfBoth)) requireServable(from, source.name);
  await requireEmpty(target, target.name);
  const { logs, problems } = await auditSource(options);
  return problems.length > 0 ? { problems } : { targetStoreId, logs, wasFinished: false };
}

/** Whether `abandonCopy` would take a seal off the store. Rejects like it. */
export async function hasBrokenSeal(source: StoreDatabase): Promise<boolean> {
  const state = await readCopyState(source);
  if (state?.isFinal === true) requireServable(state, source.name);
  return state?.part === "source";
}

/**
 * Removes the seal of an interrupted copy from a store and its anchor. Resolves with whether there was one. Rejects
 * with `IncompatibleStoreError` if the copy was finished.
 */
export async function abandonCopy(source: StoreDatabase): Promise<boolean> {
  await hasBrokenSeal(source);
  return source.transact(async (transaction) => {
    // An older copy of the store has no seal: beside the anchor of a store that was copied it must not be served.
    if ((await transaction.query(dropSeal, [])).count === 0) return false;
    await run(transaction, source.sealing.unseal(sealedTables));
    // Before the commit: if the command is interrupted, the store still has its seal, and the next one ends it.
    if (source.anchorPath !== undefined) sealAnchor(source.anchorPath, false);
    return true;
  });
}

/** Also seals the anchor, so that an older copy of the store beside this anchor is refused too. */
async function seal(source: StoreDatabase, targetStoreId: string, attempt: string): Promise<void> {
  await source.transact(async (transaction) => {
    await run(transaction, source.sealing.seal(sealedTables));
    const state = await readCopyState(transaction);
    if (state?.isFinal === true && state.otherStoreId !== targetStoreId) requireServable(state, source.name);
    await transaction.query(take, ["source", targetStoreId, attempt]);
  });
  if (source.anchorPath !== undefined) sealAnchor(source.anchorPath, true);
}

/** Marks the target, so that no gateway starts on it, and removes the rows of an interrupted copy: they were never served. */
async function begin(target: StoreDatabase, sourceStoreId: string, attempt: string): Promise<void> {
  await target.transact(async (transaction) => {
    await transaction.query(lockStore, []);
    await requireEmpty(transaction, target.name);
    await transaction.query(take, ["target", sourceStoreId, attempt]);
    for (const { name } of copiedTables) await transaction.query(`DELETE FROM ${name}`, []);
  });
}

/** Rejects with `IncompatibleStoreError` if the target has rows other than those of an interrupted copy. */
async function requireEmpty(target: Queries, name: string): Promise<void> {
  const state = await readCopyState(target);
  if (state?.part === "target") return;
  requireServable(state, name);
  for (const table of copiedTables)
    if ((await target.query(`SELECT 1 FROM ${table.name} LIMIT 1`, [])).count > 0)
      throw new IncompatibleStoreError(
        `${name} is not empty: it has ${table.name}. A store is copied only to one that \`migrate\` has made and that no ` +
          "gateway has started on.",
      );
}

/** Works on the target, durably. Rejects with `IncompatibleStoreError` if another copy to it has begun. */
function held({ target, attempt }: Copying, work: (transaction: Transaction) => Promise<unknown>): Promise<void> {
  return target.transact(async (transaction) => {
    if ((await transaction.query(hold, [attempt])).count !== 1)
      throw new IncompatibleStoreError("Another copy to the same store has begun: this one ends.");
    await work(transaction);
  });
}

/** Rows in memory at a time: 1 MiB each at most. */
const rowsEach = 256;

async function copyTable(table: Table, copying: Copying): Promise<void> {
  const { source, target, nowMs, onProgress } = copying;
  const columns = Object.keys(table.columns);
  // An opening is found by its entry, since the two databases order its key differently.
  const [from, key] =
    table.name === "openings"
      ? ["entries JOIN openings USING (tenant_id, record_id)", ["tenant_id", "leaf_index"]]
      : [table.name, table.key];
  const selected = [...new Set([...columns, ...key])].join(", ");
  const page = (isAfter: string) =>
    `SELECT ${selected} FROM ${from} WHERE ${isCopied(table, nowMs)} AND ${isAfter}
      ORDER BY ${key.join(", ")} LIMIT ${rowsEach}`;
  const next = page(`(${key.join(", ")}) > (${key.map((_, at) => `$${at + 1}`).join(", ")})`);
  let asked: [string, readonly unknown[]] = [page("true"), []];
  for (let copied = 0; ; ) {
    const { rows } = await source.query(...asked);
    const last = rows.at(-1);
    if (last === undefined) return;
    copied += rows.length;
    onProgress?.(`copying ${table.name}: ${copied} rows`);
    const values = rows.map((row) => columns.map((column) => row[column] as Value));
    await held(copying, (transaction) => target.insert(transaction, table, values));
    asked = [next, key.map((name) => last[name])];
  }
}

/** Condition of the rows that have not expired. */
function isCopied({ expiry }: Table, nowMs: number): string {
  return expiry === undefined ? "true" : `${expiry} > ${nowMs}`;
}

async function auditSource(options: CopyOptions) {
  await using archive = await options.source.openArchive();
  const problems = [
    // The copy would include them.
    ...describeUndone(await archive.undoneErasures()),
    ...(await archive.anchorProblems()).map(({ message }) => message),
    ...describeOrphans(await archive.orphanRows()),
  ].map((problem) => `source: ${problem}`);
  const logs = await archive.logs();
  const keys = keyProblems(options.keyPath, (await archive.signingKeys()).at(-1));
  return { logs, problems: [...keys, ...problems, ...(await auditLogs(archive, "source", options))] };
}

/** The target will be served with the key of the settings, which must be the signing key. */
function keyProblems(keyPath: string, newest: Uint8Array | undefined): readonly string[] {
  // Nothing was ever signed.
  if (newest === undefined) return [];
  const [current] = readKeyFile(keyPath) ?? [];
  if (current === undefined) return [`${keyPath} is missing: it has the key that signs the logs`];
  return sameHash(current.publicKey, newest) ? [] : [`${keyPath} is not the key that signs the logs of the source`];
}

async function auditLogs(archive: OperatorArchive, end: "source" | "target", { onProgress }: CopyOptions) {
  const problems: string[] = [];
  for (const head of await archive.logs()) {
    const audit = await auditLog(archive, head, {
      onProgress: (leaves) => onProgress?.(`auditing the ${end}: ${head.origin}, ${leaves} of ${head.size}`),
    });
    const problem = audit.problem ?? rotationProblem(audit, await archive.keysOfLog(head));
    if (problem !== undefined) problems.push(`${end}: ${head.origin}: ${problem.message}`);
  }
  return problems;
}

/** Lists every difference between the target and the sealed source, whose logs it returns. */
async function auditTarget(copying: Copying) {
  const { source, target, nowMs } = copying;
  await using sealed = await source.openArchive();
  const logs = await sealed.logs();
  const problems = (await sealed.anchorProblems()).map(({ message }) => `source: ${message}`);
  for (const table of copiedTables) {
    const count = async (end: StoreDatabase, isCounted: string) =>
      (await end.query(`SELECT count(*) AS count FROM ${table.name} WHERE ${isCounted}`, [])).rows[0]?.count;
    const [of, rows] = [await count(source, isCopied(table, nowMs)), await count(target, "true")];
    if (rows !== of) problems.push(`target: ${table.name} has ${rows} rows of ${of}`);
  }
  await using archive = await target.openArchive();
  const heads = new Map((await archive.logs()).map((head) => [head.tenantId, head]));
  for (const { tenantId, origin, size, root } of logs) {
    const there = heads.get(tenantId);
    if (there?.origin !== origin || there.size !== size || !sameHash(there.root, root))
      problems.push(`target: ${origin} is not what it was`);
  }
  return { logs, problems: [...problems, ...(await auditLogs(archive, "target", copying))] };
}

async function run(transaction: Transaction, texts: readonly string[]): Promise<void> {
  for (const text of texts) await transaction.query(text, []);
}
