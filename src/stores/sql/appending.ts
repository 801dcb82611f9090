/**
 * Appends the batches of one tenant, or of many, in the caller's transaction, under the locks of the logs' heads. One
 * statement per table carries the rows of several batches.
 */
import type { TenantId } from "../../base/ids.ts";
import { planBatch } from "../../ledger/append/batch-plan.ts";
import { edgeOf, edgeTiles } from "../../ledger/append/edge.ts";
import { encodeRecord } from "../../ledger/append/record-text.ts";
import { encodedRegistrations } from "../../ledger/artifacts/registration-index.ts";
import {
  type BatchFailure,
  type BatchResult,
  type CommittedRecord,
  type EncodedRecord,
  type LogState,
  type TenantBatch,
  UnstorableError,
} from "../../ledger/ports/store.ts";
import { committedRecords } from "../../ledger/record/committed-record.ts";
import { rotationRecord } from "../../ledger/record/operator-records.ts";
import { indexedRecords } from "../../ledger/search/search-terms.ts";
import { RightEdge } from "../../ledger/tlog/right-edge.ts";
import { nodesOfTiles, proofTiles, type TileReader } from "../../ledger/tlog/tile-nodes.ts";
import { Tree } from "../../ledger/tlog/tree.ts";
import { DamagedError, damaged } from "../files/errors.ts";
import { findKept, type KeptRow, keptCalls, knownScopes, tilesOfKept } from "./idempotency-records.ts";
import { lockHeads, type OwnTile, readTilesOf, type StoredHead } from "./log-rows.ts";
import { type AppendedLog, insertHead, type LogTools, type OwnRows, touch, writeRows } from "./log-tools.ts";
import type { Transaction } from "./queries.ts";
import { addRegistrations, type TenantRegistrations } from "./registrations.ts";
import { tables } from "./schema.ts";
import { additionOf, leavesToRead, type ReadAgain, type SearchIndex, type Waiting } from "./search-backlog.ts";
import { indexesOf } from "./search-segments.ts";
import { requireSound } from "./store-checks.ts";
import { maxBytesAgain, type OwnRange, readToIndex } from "./stored-record.ts";

/** Another writer was first. Nothing was stored, and the next attempt sees the other's changes. */
export class ConflictError extends Error {
  override readonly name = "ConflictError";
}

/** Records of a batch that is made in one turn of the event loop, and shares a transaction. */
export const maxShared = 128;
/** Records of a larger batch that are made in one turn. */
const recordsAtOnce = 16;
/** Records sent at once, so that the server writes them while others are sealed. */
const recordsSentAtOnce = 64;

/**
 * How to take locked heads: skip them, or wait. `apart` waits for the heads, and hands their logs over to a newer key,
 * which the tenants of a shared database should not wait for.
 */
export type Taking = "skip" | "wait" | "apart";

/** Outcome of a batch; `held` if another process has locked the log. */
export type PartOutcome = BatchResult | BatchFailure | "held";

/** A tenant's part of the transaction, under the lock of its head, with what was read for it. */
interface Part {
  readonly tenantId: TenantId;
  /** Empty if only the log's state is to become durable. */
  readonly records: readonly EncodedRecord[];
  /** Undefined for a log that begins with this batch. */
  readonly head: StoredHead | undefined;
  /** The log's search index. */
  readonly index: SearchIndex | undefined;
  /** Answers that are kept under the batch's scopes. */
  readonly kept: readonly KeptRow[];
  /** Records that hand the log over to newer keys, before the batch. */
  readonly handover: readonly EncodedRecord[];
  readonly anchored: LogState | undefined;
  /** Edge of the log, and terms of the leaves that wait for its search index, if they are remembered. */
  readonly edge?: RightEdge;
  readonly waiting?: Waiting | undefined;
}

/** Result of one attempt. Valid after its commit. */
export interface Appended {
  /** By tenant; none for those that were left out. */
  readonly outcomes: ReadonlyMap<TenantId, PartOutcome>;
  readonly logs: readonly AppendedLog[];
}

export interface AppendingOptions {
  readonly taking: Taking;
  readonly tools: LogTools;
  /** Whether to begin missing logs, rather than to leave them out. */
  readonly isBeginning?: boolean;
  /** Origin of a log that begins, and has its name already. Another process may begin the log meanwhile. */
  readonly origin?: string;
}

/**
 * Locks the heads of logs, and appends. Leaves out those that need their own transaction. Rejects if a batch of one
 * tenant cannot be appended.
 */
export async function appendBatches(
  connection: Transaction,
  batches: readonly TenantBatch[],
  options: AppendingOptions,
): Promise<Appended> {
  const { taking, tools, isBeginning = false } = options;
  const tenants = batches.map(({ tenantId }) => tenantId);
  // Before the heads: another process may begin and anchor a log at any time.
  const anchored = new Map(tenants.map((tenantId) => [tenantId, tools.anchor?.find(tenantId)]));
  // All are sent at once and answered in this order, so reads behind the locks see their state.
  const [heads, keptRows, indexes] = await Promise.all([
    lockHeads(connection, tenants, taking === "skip" ? "skip" : "wait"),
    findKept(connection, batches),
    indexesOf(connection, tenants),
  ]);
  const kept = Map.groupBy(keptRows, ({ tenantId }) => tenantId);
  const outcomes = new Map<TenantId, PartOutcome>();
  const parts: Part[] = [];
  for (const { tenantId, records } of batches) {
    const head = heads.get(tenantId);
    if (head === undefined && !isBeginning) {
      if (taking === "skip" && tools.hasLog(tenantId)) outcomes.set(tenantId, "held");
      continue;
    }
    if (head !== undefined && taking === "apart") await tools.keys?.followLog(connection, head.keyPosition);
    else if (head !== undefined && tools.keys !== undefined && head.keyPosition !== tools.keys.position) continue;
    parts.push({
      ...{ tenantId, records, head, index: indexes.get(tenantId), kept: kept.get(tenantId) ?? [] },
      handover: head === undefined ? [] : handoverOf(head, tools),
      anchored: anchored.get(tenantId),
      ...(head && tools.recall(head)),
    });
  }
  const [readTile, readAgain] = await Promise.all([
    readTilesOf(connection, parts.flatMap(tilesFor)),
    readToIndex(connection, toReadAgain(parts), maxBytesAgain),
  ]);
  const logs: Added[] = [];
  const appending = new Appending(connection, options);
  for (const part of parts) {
    const { tenantId } = part;
    try {
      const added = await appending.add(part, readAgain.get(tenantId), readTile(tenantId));
      outcomes.set(tenantId, added.result);
      logs.push(added);
    } catch (error) {
      // Caused by this batch alone; nothing of it was sent.
      const isOfBatch = error instanceof UnstorableError || error instanceof DamagedError;
      if (taking === "apart" || !isOfBatch) throw error;
      outcomes.set(tenantId, { error: error instanceof DamagedError ? damaged(error) : error });
    }
  }
  await Promise.all([
    appending.written(),
    // Their answers were read from another process's commit, which may not be durable yet.
    touch(
      connection,
      logs.filter(({ edge }) => edge === undefined).map(({ log }) => log.tenantId),
    ),
    addRegistrations(
      connection,
      logs.flatMap(({ registering }) => registering ?? []),
    ),
  ]);
  return { outcomes, logs };
}

/** Makes a record for every key after the log's own, which hands the log to the next key. */
function handoverOf({ tenantId, keyPosition }: StoredHead, { keys, clock, random }: LogTools): EncodedRecord[] {
  if (keys === undefined) return [];
  return Array.from({ length: Math.max(0, keys.position - keyPosition) }, (_, at) => {
    const next = keyPosition + at + 1;
    const keysOfStep = { previous: keys.at(next - 1), current: keys.at(next), statement: keys.statementAt(next) };
    return encodeRecord(rotationRecord(tenantId, { ...keysOfStep, clock, random }));
  });
}

/** Tiles to read for a part: of its edge, if that is not remembered, and of older trees. */
function tilesFor({ tenantId, records, handover, head, kept, anchored, edge }: Part): readonly OwnTile[] {
  if (head === undefined) return [];
  const isGrowing = handover.length + records.length > 0;
  const isGrown = anchored !== undefined && anchored.size < head.size;
  const tiles = [
    ...(isGrowing ? edgeTiles(head, edge) : []),
    ...(isGrown ? proofTiles(anchored.size) : []),
    ...kept.flatMap((row) => tilesOfKept(row, head.size)),
  ];
  const own = new Map(tiles.map(({ level, index }) => [`${level}/${index}`, { tenantId, level, index }]));
  return [...own.values()];
}

/** Bound of the leaves per write whose records are read again for search indexes. The others wait. */
const maxReadAgain = 1_024;

function toReadAgain(parts: readonly Part[]): readonly OwnRange[] {
  let leaves = 0;
  return parts.flatMap(({ tenantId, head, index, waiting, records, handover }) => {
    if (head === undefined) return [];
    const range = leavesToRead({ index, size: head.size, waiting }, handover.length + records.length);
    leaves += range === undefined ? 0 : range.end - range.first;
    return range === undefined || leaves > maxReadAgain ? [] : [{ tenantId, ...range }];
  });
}

interface Added extends AppendedLog {
  readonly result: BatchResult;
  readonly registering?: TenantRegistrations;
}

/** Makes the rows of parts, and sends them while those of others are made. */
class Appending {
  readonly #connection: Transaction;
  readonly #tools: LogTools;
  readonly #origin: string | undefined;
  readonly #sent: Promise<void>[] = [];
  #unsent: OwnRows[] = [];
  #unsentRecords = 0;

  constructor(connection: Transaction, { tools, origin }: AppendingOptions) {
    this.#connection = connection;
    this.#tools = tools;
    this.#origin = origin;
  }

  /** Rejects with `UnsoundLogError` or `UnstorableError` if the tenant's batch cannot be appended. */
  async add(part: Part, read: ReadAgain | undefined, readTile: TileReader): Promise<Added> {
    const { tenantId, records, handover, kept, head, anchored } = part;
    requireSound(anchored, head, (size) => new Tree(size, nodesOfTiles(readTile)).root());
    const plan = planBatch(
      records,
      knownScopes(kept, head, readTile, (recordId) => this.#tools.anchor?.notesErasure(tenantId, recordId) === true),
    );
    const fresh = [...handover, ...plan.fresh];
    if (fresh.length === 0 && head !== undefined) {
      this.#tools.remember({ ...part, log: head });
      return { result: { log: head.origin, results: plan.results([]) }, log: head };
    }
    const edge = head === undefined ? new RightEdge() : edgeOf(head, part.edge, readTile);
    const { committed, ...added } = await this.#addAll(part, read, fresh, edge);
    const results = plan.results(committed.slice(handover.length));
    return { ...added, edge, result: { log: added.log.origin, results } };
  }

  /** Resolves when all rows are written. Rejects with `ConflictError` if a head was moved. */
  async written(): Promise<void> {
    this.#send();
    await Promise.all(this.#sent);
  }

  /** Adds records in one turn, or more than these in several, so that other calls have theirs in between. */
  async #addAll(part: Part, readAgain: ReadAgain | undefined, fresh: readonly EncodedRecord[], edge: RightEdge) {
    const { tenantId } = part;
    const { keys, terms, isAlone } = this.#tools;
    const atOnce = fresh.length > maxShared && !isAlone ? recordsAtOnce : fresh.length;
    const first = this.#tools.sequence(part.head, fresh.slice(0, atOnce), this.#origin);
    // The log goes on to no other key than its leaves name: the process may have followed a rotation since they were made.
    const handedTo = part.head && part.head.keyPosition + part.handover.length;
    const keyPosition = handedTo ?? keys?.position ?? 0;
    const committed: CommittedRecord[] = [];
    let log = part.head;
    let [waiting, read] = [part.waiting, readAgain];
    let index = first.searchKey === undefined ? part.index : { key: first.searchKey, filledTo: 0 };
    for (let from = 0; from < fresh.length; from += atOnce) {
      if (from > 0) await this.#turn();
      const records = fresh.slice(from, from + atOnce);
      const sequenced = from === 0 ? first : this.#tools.sequence(log, records);
      const { entries, head: next } = sequenced;
      const before = edge.size;
      for (const { leafHash } of entries) edge.append(leafHash);
      const tree = edge.tree();
      const head = { ...next, tenantId, size: edge.size, root: tree.root(), keyPosition };
      committed.push(...committedRecords(sequenced, tree, head));
      const leaves = { before, size: edge.size, records: indexedRecords(sequenced, records) };
      const search = additionOf(terms, { index, waiting, read, ...leaves });
      if (log === undefined) {
        if (!(await insertHead(this.#connection, head)))
          throw new ConflictError("The log was opened by another writer.");
        if (index !== undefined)
          await this.#connection.insert(tables.searchKeys, [[tenantId, index.key, index.filledTo]]);
      }
      const calls = keptCalls(records, entries);
      this.#add({ before: log, head, entries, tiles: edge.takeTouched(), calls, search }, records.length);
      log = head;
      index = index && { ...index, filledTo: search.filledTo ?? index.filledTo };
      waiting = search.waiting;
      read = undefined;
    }
    const registrations = encodedRegistrations(fresh, first.firstLeafIndex);
    const registering = { tenantId, registrations, freshKey: first.artifactKey };
    return { log: log as StoredHead, waiting, registering, committed };
  }

  #add(rows: OwnRows, records: number): void {
    // Before the addition: the last rows are sent with the other tables.
    if (this.#unsentRecords >= recordsSentAtOnce) this.#send();
    this.#unsent.push(rows);
    this.#unsentRecords += records;
  }

  /** Sends what was made. Resolves when the server has written what was sent before. */
  async #turn(): Promise<void> {
    const before = this.#sent.at(-1);
    this.#send();
    await before;
  }

  #send(): void {
    if (this.#unsent.length === 0) return;
    const sent = this.#write(this.#unsent);
    // If other rows fail, this rejection is unused.
    sent.catch(() => {});
    this.#sent.push(sent);
    this.#unsent = [];
    this.#unsentRecords = 0;
  }

  async #write(rows: readonly OwnRows[]): Promise<void> {
    if (!(await writeRows(this.#connection, rows, this.#tools.clock.now())))
      throw new ConflictError("The head of a log was moved by another writer.");
  }
}
