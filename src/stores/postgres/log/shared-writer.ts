/**
 * Appends batches of many tenants in one transaction. Skips log heads that another replica has locked (`SKIP LOCKED`),
 * and retries them together with a short lock timeout, so one stuck log never blocks the others. A tenant that needs
 * its own transaction is left out.
 */
import type { TenantId } from "../../../base/ids.ts";
import { type BatchPlan, planBatch } from "../../../ledger/append/batch-plan.ts";
import { edgeOf, edgeTiles } from "../../../ledger/append/edge-cache.ts";
import type { Sequenced } from "../../../ledger/append/sequence.ts";
import type { AnchoredLog } from "../../../ledger/ports/anchor.ts";
import {
  type BatchFailure,
  type BatchResult,
  type EncodedIdempotency,
  type EncodedRecord,
  type LogState,
  type OnUncommitted,
  type TenantBatch,
  UnstorableError,
} from "../../../ledger/ports/store.ts";
import { idempotentResult } from "../../../ledger/record/idempotency-record.ts";
import type { LeafRange } from "../../../ledger/search/search-index.ts";
import type { RightEdge } from "../../../ledger/tlog/right-edge.ts";
import { nodesOfTiles, proofTiles, type TileReader } from "../../../ledger/tlog/tile-nodes.ts";
import { Tree } from "../../../ledger/tlog/tree.ts";
import { DamagedError } from "../../files/errors.ts";
import type { LogIndex } from "../../sql/add-records.ts";
import { requireSound } from "../../sql/anchoring.ts";
import { tilesOfKept, toIdempotencyRow } from "../../sql/idempotency-records.ts";
import type { StoredHead } from "../../sql/log-rows.ts";
import type { Row } from "../../sql/queries.ts";
import { addRegistrations, type FreshBatch } from "../../sql/registrations.ts";
import { type IndexGeneration, leavesToRead, type SearchAddition, type Waiting } from "../../sql/search-backlog.ts";
import { maxBytesAgain } from "../../sql/search-fill.ts";
import type { PostgresConnection } from "../connection/connection.ts";
import { toError } from "../connection/errors.ts";
import type { LogTools } from "./log-tools.ts";
import { RowSender } from "./row-sender.ts";
import {
  findKeptOfMany,
  type HeadLock,
  indexesOfMany,
  lockHeads,
  type OwnRows,
  type OwnTile,
  readTilesOfMany,
  readToIndexOfMany,
  touchMany,
} from "./shared-statements.ts";

/** A tenant's part of the transaction, under the lock of its head. */
interface Part {
  readonly tenantId: TenantId;
  readonly records: readonly EncodedRecord[];
  readonly head: StoredHead;
  readonly index: IndexGeneration | undefined;
  readonly waiting: Waiting | undefined;
  readonly kept: readonly Row[];
  readonly anchored: AnchoredLog | undefined;
  /** From the cache. */
  readonly edge: RightEdge | undefined;
}

/** Outcome of a batch; `held` if another process has locked the log. */
export type SharedOutcome = BatchResult | BatchFailure | "held";

/** Result of one attempt. Valid after its commit. */
export interface SharedAppend {
  /** By tenant; none for those that need their own transaction. */
  readonly outcomes: ReadonlyMap<TenantId, SharedOutcome>;
  readonly edges: readonly { readonly log: LogState; readonly edge: RightEdge; readonly search: SearchAddition }[];
  readonly logs: readonly LogState[];
}

export interface AppendingOptions {
  readonly lock: HeadLock;
  readonly tools: LogTools;
  readonly onUncommitted: OnUncommitted | undefined;
}

/** One attempt, in the caller's transaction. */
export async function appendOfMany(
  connection: PostgresConnection,
  batches: readonly TenantBatch[],
  { lock, tools, onUncommitted }: AppendingOptions,
): Promise<SharedAppend> {
  const outcomes = new Map<TenantId, SharedOutcome>();
  const parts = await takeParts(connection, batches, { lock, tools, outcomes });
  const [readTile, readAgain] = await Promise.all([
    readTilesOfMany(connection, parts.flatMap(tilesFor)),
    readToIndexOfMany(connection, toReadAgain(parts), maxBytesAgain),
  ]);
  const written: (OwnRows & { readonly edge: RightEdge })[] = [];
  const registering: FreshBatch[] = [];
  const touched: LogState[] = [];
  const sender = new RowSender(connection, tools.clock);
  for (const part of parts) {
    try {
      const read = readAgain.get(part.tenantId);
      const added = addPart({ ...part, read }, readTile(part.tenantId), tools);
      outcomes.set(part.tenantId, added.result);
      if (added.rows === undefined) touched.push(part.head);
      else {
        written.push(added.rows);
        sender.add(added.rows);
        registering.push({ tenantId: part.tenantId, records: added.plan.fresh, sequenced: added.sequenced });
      }
    } catch (error) {
      // Caused by this batch alone; nothing of it was sent.
      if (!(error instanceof UnstorableError || error instanceof DamagedError)) throw error;
      outcomes.set(part.tenantId, { error: toError(error) });
    }
  }
  const writing = Promise.all([
    sender.written(),
    touchMany(
      connection,
      touched.map(({ tenantId }) => tenantId),
    ),
    addRegistrations(connection, registering),
  ]);
  // While the server writes.
  if (onUncommitted !== undefined)
    for (const outcome of outcomes.values())
      if (typeof outcome === "object" && "results" in outcome) onUncommitted(outcome);
  await writing;
  return { outcomes, edges: written, logs: [...written.map(({ log }) => log), ...touched] };
}

interface Taking {
  readonly lock: HeadLock;
  readonly tools: LogTools;
  /** Receives the outcomes of batches that are left out. */
  readonly outcomes: Map<TenantId, SharedOutcome>;
}

/** Locks the heads, and reads what the batches need. Notes why the others are left out. */
async function takeParts(
  connection: PostgresConnection,
  batches: readonly TenantBatch[],
  { lock, tools, outcomes }: Taking,
): Promise<readonly Part[]> {
  const tenants = batches.map(({ tenantId }) => tenantId);
  // All are sent at once and answered in this order, so reads behind the locks see their state.
  const [heads, keptRows, indexes] = await Promise.all([
    lockHeads(connection, tenants, lock),
    findKeptOfMany(connection, batches.flatMap(scopesOf)),
    indexesOfMany(connection, tenants),
  ]);
  const kept = Map.groupBy(keptRows, ({ tenant_id }) => tenant_id as TenantId);
  const parts: Part[] = [];
  for (const { tenantId, records } of batches) {
    const head = heads.get(tenantId);
    if (head === undefined) {
      if (lock === "skip" && tools.anchoring.hasLog(tenantId)) outcomes.set(tenantId, "held");
      continue;
    }
    // The log needs a handover, here or by another process, or its index of registrations is behind.
    if (tools.keys !== undefined && head.keyPosition !== tools.keys.position) continue;
    if (head.registeredTo !== head.size) continue;
    parts.push({
      tenantId,
      records,
      head,
      index: indexes.get(tenantId),
      waiting: tools.waiting.of(head),
      kept: kept.get(tenantId) ?? [],
      anchored: tools.anchoring.anchored(tenantId),
      edge: tools.edges.take(head),
    });
  }
  return parts;
}

function scopesOf({ tenantId, records }: TenantBatch) {
  return records.flatMap(({ idempotency }) => (idempotency === undefined ? [] : [{ tenantId, ...idempotency }]));
}

/** Tiles to read for a part: of its edge, if the cache has none, and of older trees. */
function tilesFor({ tenantId, head, kept, anchored, edge }: Part): readonly OwnTile[] {
  const isBehind = anchored !== undefined && anchored.size < head.size;
  const tiles = [
    ...edgeTiles(head, edge),
    ...(isBehind ? proofTiles(anchored.size) : []),
    ...kept.flatMap((row) => tilesOfKept(toIdempotencyRow(row), head.size)),
  ];
  const own = new Map(tiles.map(({ level, index }) => [`${level}/${index}`, { tenantId, level, index }]));
  return [...own.values()];
}

/** Bound of the leaves per write whose records are read again for search indexes. The others wait. */
const maxReadAgain = 1_024;

function toReadAgain(parts: readonly Part[]): readonly (LeafRange & { readonly tenantId: TenantId })[] {
  let leaves = 0;
  return parts.flatMap(({ tenantId, head, index, waiting, records }) => {
    const range = leavesToRead({ index, size: head.size, waiting }, records.length);
    leaves += range === undefined ? 0 : range.end - range.first;
    return range === undefined || leaves > maxReadAgain ? [] : [{ tenantId, ...range }];
  });
}

interface Added {
  readonly plan: BatchPlan;
  readonly sequenced: Sequenced;
  readonly result: BatchResult;
  readonly rows: OwnRows & { readonly edge: RightEdge };
}
/** A part with the results of all its calls. */
interface Answered {
  readonly result: BatchResult;
  readonly rows: undefined;
}

/** Throws `UnsoundLogError` or `UnstorableError` if the tenant's batch cannot be appended. */
function addPart(part: Part & Pick<LogIndex, "read">, readTile: TileReader, tools: LogTools): Added | Answered {
  const { tenantId, records, head, index, waiting, read, anchored } = part;
  const treeAt = (size: number) => new Tree(size, nodesOfTiles(readTile));
  requireSound(anchored, head, (size) => treeAt(size).root());
  const plan = planBatch(records, knownIn(part.kept, head, treeAt));
  const edge = edgeOf(head, part.edge, readTile);
  if (plan.fresh.length === 0) {
    tools.edges.put(tenantId, edge, head.root);
    return { result: { log: head.origin, results: plan.results([]) }, rows: undefined };
  }
  const sequenced = tools.sequence(head, plan.fresh);
  const { log, committed, rows } = tools.addRecords(plan.fresh, sequenced, edge, { tenantId, index, waiting, read });
  const result = { log: log.origin, results: plan.results(committed) };
  const { lastRecordedAtMs } = sequenced.head;
  return { plan, sequenced, result, rows: { ...rows, head, log, lastRecordedAtMs, edge } };
}

function knownIn(rows: readonly Row[], head: LogState, treeAt: (size: number) => Tree) {
  const stored = new Map(rows.map((row) => [(row.scope as Buffer).toString("hex"), toIdempotencyRow(row)]));
  return (idempotency: EncodedIdempotency) => {
    const row = stored.get(idempotency.scope);
    return row && idempotentResult(row, idempotency, head, treeAt);
  };
}
