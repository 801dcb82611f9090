/**
 * Moves an embedded store to an empty database, which continues its logs. The source is sealed first; the target is not
 * served until everything has arrived and every log was audited there. An interrupted copy can be run again.
 */
import type { Clock } from "../base/clock.ts";
import type { RandomFill } from "../base/ids.ts";
import { auditLog } from "../ledger/audit/audit.ts";
import { describeOrphans } from "../ledger/audit/companions.ts";
import { rotationProblem } from "../ledger/audit/rotation-audit.ts";
import type { StoreArchive } from "../ledger/ports/archive.ts";
import type { LogState } from "../ledger/ports/store.ts";
import { sameHash } from "../ledger/tlog/tree.ts";
import { readKeyFile } from "./key-file.ts";

import type { ConnectionSettings } from "./postgres/connection/client-options.ts";
import { openPostgresArchive } from "./postgres/operators.ts";
import { PostgresCopyTarget } from "./postgres/schema/copy-target.ts";
import { sharedTables, type Table, tenantTables } from "./sql/tables.ts";
import type { StorePaths } from "./sqlite/paths.ts";
import { type CopiedRow, SqliteCopySource } from "./sqlite/schema/copy-source.ts";

export interface CopyOptions {
  readonly from: StorePaths;
  readonly to: ConnectionSettings;
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

/** Why nothing was copied, or why the copy must not be used; for the operator. */
export interface CopyProblems {
  readonly problems: readonly string[];
}

/** Bound of the rows in memory at a time; a bound of bytes applies too. */
const maxBatchRows = 512;
const maxBatchBytes = 4 * 1024 * 1024;

/**
 * Copies. The source is sealed only after it passed its audit. If this rejects, or resolves with problems, the target
 * is not served. Rejects with `IncompatibleStoreError` if one of the two is unsuitable, with an error of a driver or
 * the file system if one cannot be used.
 */
export function copyStore(options: CopyOptions): Promise<CopiedStore | CopyProblems> {
  const { onProgress = () => {} } = options;
  return withBoth(options, async (source, target) => {
    const found = await check(source, target, options);
    if ("problems" in found || found.wasFinished) return found;
    const { targetStoreId } = found;
    const owner = { targetStoreId, attempt: target.attempt };
    source.seal(owner);
    await target.begin();
    await copyRows(source, target, onProgress);
    const after = [...(await anchorProblems(source)), ...(await targetProblems(source, target, options))];
    if (after.length > 0) return { problems: after };

    // In this order: a seal that is not final proves that the target was never served.
    source.finish(owner);
    await target.finish();
    return { targetStoreId, logs: await source.heads(), wasFinished: false };
  });
}

/** Reports what `copyStore` would do now. Seals and writes nothing. Rejects like it. */
export function previewCopy(options: CopyOptions): Promise<CopiedStore | CopyProblems> {
  return withBoth(options, (source, target) => check(source, target, options));
}

async function withBoth<Result>(
  { from, to, clock, random }: CopyOptions,
  work: (source: SqliteCopySource, target: PostgresCopyTarget) => Promise<Result>,
): Promise<Result> {
  const source = await SqliteCopySource.open(from, clock.now());
  const target = await PostgresCopyTarget.open({ ...to, clock, random });
  try {
    return await work(source, target);
  } finally {
    source.close();
    await target.close();
  }
}

async function check(
  source: SqliteCopySource,
  target: PostgresCopyTarget,
  { from, onProgress = () => {} }: CopyOptions,
): Promise<CopiedStore | CopyProblems> {
  const targetStoreId = await target.storeId();
  if (source.isCopiedTo(targetStoreId) && (await target.isComplete()))
    return { targetStoreId, logs: [], wasFinished: true };
  await target.requireEmpty();
  const { logs, problems: found } = await auditSource(source, onProgress);
  const problems = [...keyProblems(from.keyPath, source), ...found];
  return problems.length > 0 ? { problems } : { targetStoreId, logs, wasFinished: false };
}

/** The database will be served with the key of the settings, which must be the signing key. */
function keyProblems(keyPath: string, source: SqliteCopySource): readonly string[] {
  const newest = source.newestKey();
  if (newest === undefined) return [];
  const [current] = readKeyFile(keyPath) ?? [];
  if (current === undefined) return [`${keyPath} is missing: it has the key that signs the logs`];
  return sameHash(current.publicKey, newest) ? [] : [`${keyPath} is not the key that signs the logs of the source`];
}

async function auditSource(source: SqliteCopySource, onProgress: (text: string) => void) {
  const archive = source.archive();
  try {
    const logs = await archive.logs();
    const problems = (await archive.anchorProblems()).map(({ message }) => message);
    problems.push(...describeOrphans(await archive.orphanRows()));
    for (const head of logs)
      problems.push(...(await auditProblems(archive, head, (leaves) => onProgress(`auditing the source: ${leaves}`))));
    return { logs, problems: problems.map((problem) => `source: ${problem}`) };
  } finally {
    await archive.close();
  }
}

/** Compares the sealed source with its anchor. */
async function anchorProblems(source: SqliteCopySource): Promise<string[]> {
  const archive = source.archive();
  try {
    return (await archive.anchorProblems()).map(({ message }) => `source: ${message}`);
  } finally {
    await archive.close();
  }
}

async function auditProblems(archive: StoreArchive, head: LogState, onLeaves: (text: string) => void) {
  const audit = await auditLog(archive.log(head), {
    onProgress: (leaves) => onLeaves(`${head.origin}, ${leaves} of ${head.size}`),
  });
  // Both have handed every log over; the target notes that by log only after the copy is complete.
  const problem = audit.problem ?? rotationProblem(audit, await archive.signingKeys());
  return problem === undefined ? [] : [`${head.origin}: ${problem.message}`];
}

async function copyRows(
  source: SqliteCopySource,
  target: PostgresCopyTarget,
  onProgress: (text: string) => void,
): Promise<void> {
  for (const table of sharedTables) await copyTable(table, source.rows(table), target);
  for (const head of await source.heads()) await target.nameLog(head);
  for (const tenantId of source.tenants()) {
    for (const table of tenantTables) {
      onProgress(`copying ${table.name} of tenant ${tenantId}`);
      await copyTable(table, source.rows(table, tenantId), target);
    }
  }
}

async function copyTable(table: Table, rows: Iterable<CopiedRow>, target: PostgresCopyTarget): Promise<void> {
  let batch: CopiedRow[] = [];
  let sizeBytes = 0;
  for (const row of rows) {
    batch.push(row);
    sizeBytes += row.reduce<number>((sum, value) => sum + sizeOf(value), 0);
    if (batch.length < maxBatchRows && sizeBytes < maxBatchBytes) continue;
    await target.write(table, batch);
    batch = [];
    sizeBytes = 0;
  }
  if (batch.length > 0) await target.write(table, batch);
}

function sizeOf(value: CopiedRow[number]): number {
  return value === null || typeof value === "number" ? 8 : value.length;
}

/** Lists every difference between the target and the sealed source. */
async function targetProblems(
  source: SqliteCopySource,
  target: PostgresCopyTarget,
  { to, clock, onProgress = () => {} }: CopyOptions,
): Promise<string[]> {
  const problems: string[] = [];
  for (const table of [...sharedTables, ...tenantTables]) {
    const [expected, arrived] = [source.count(table), await target.count(table)];
    if (expected !== arrived) problems.push(`target: ${table.name} has ${arrived} rows of ${expected}`);
  }
  const archive = await openPostgresArchive({ ...to, anchorPath: undefined, clock });
  try {
    const heads = new Map((await archive.logs()).map((head) => [head.tenantId, head]));
    for (const head of await source.heads()) {
      const there = heads.get(head.tenantId);
      if (there === undefined || !isSame(there, head)) problems.push(`target: ${head.origin} is not what it was`);
      const show = (text: string) => onProgress(`auditing the target: ${text}`);
      const found = there === undefined ? [] : await auditProblems(archive, there, show);
      problems.push(...found.map((problem) => `target: ${problem}`));
    }
    return problems;
  } finally {
    await archive.close();
  }
}

function isSame(one: LogState, other: LogState): boolean {
  return one.origin === other.origin && one.size === other.size && sameHash(one.root, other.root);
}
