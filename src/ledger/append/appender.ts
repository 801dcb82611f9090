/**
 * Group commit. Callers queue per tenant; one write carries what many of them wait for, so that they share one durable
 * commit; each is answered only when that commit is confirmed.
 */

import { overloaded, ServiceError } from "../../base/errors.ts";
import type { TenantId } from "../../base/ids.ts";
import { outsideConnections } from "../../base/outside-connections.ts";
import { systemTimers, type Timers } from "../../base/timers.ts";
import { type Span, traced } from "../../base/trace.ts";
import type { AnchoredLog, SharedAnchor } from "../ports/anchor.ts";
import type { Appended } from "../ports/ledger.ts";
import type { NewRecord } from "../ports/record.ts";
import {
  type BatchOutcome,
  type BatchResult,
  type BatchWriter,
  type Patience,
  UnsoundLogError,
  UnstorableError,
} from "../ports/store.ts";
import type { CheckpointSigner } from "../tlog/signer.ts";
import { answerBatch, answersOf, newestTree, storeFailure, unavailable } from "./answering.ts";
import { Contention } from "./contention.ts";
import { EarlyAnswers } from "./early-answers.ts";
import { type EncodedRecord, encodeRecord } from "./encode.ts";
import { type AppenderLimits, defaultAppenderLimits } from "./limits.ts";
import type { CommitObserver } from "./observed.ts";
import { batchOf, commitSpan, halve, type Share, TenantQueues, type Waiting } from "./queues.ts";

type QueueObserver = Pick<CommitObserver, "elapsedMs" | "waited">;

/** Writes whose answers wait for the shared anchor. */
const maxAnswersWaiting = 32;

type ToWrite = Omit<Waiting, "sinceMs" | "endsAtMs" | "written" | "isOver">;

const patiences: readonly Patience[] = ["none", "moment", "full"];

export class Appender {
  readonly #writer: BatchWriter;
  readonly #signer: CheckpointSigner;
  readonly #limits: AppenderLimits;
  readonly #anchor: SharedAnchor | undefined;
  readonly #queues: TenantQueues;
  readonly #timers: Timers;
  readonly #queue: QueueObserver | undefined;
  readonly #contention = new Contention();
  readonly #writes: Record<Patience, number> = { none: 0, moment: 0, full: 0 };
  #queued = 0;
  #answersWaiting = 0;
  #scheduled = false;
  #closed: PromiseWithResolvers<void> | undefined;

  constructor(
    writer: BatchWriter,
    signer: CheckpointSigner,
    limits: AppenderLimits = defaultAppenderLimits,
    anchor?: SharedAnchor,
    timers: Timers = systemTimers,
    queue?: QueueObserver,
  ) {
    this.#queue = queue;
    this.#timers = timers;
    this.#writer = writer;
    this.#anchor = anchor;
    this.#signer = signer;
    this.#limits = limits;
    this.#queues = new TenantQueues(limits, (tenantId) => this.#contention.patienceFor(tenantId));
  }

  /**
   * Resolves when the record is durable. Rejects with `ServiceError`: `invalid_request` for a record that is too large
   * or cannot be written as canonical JSON, `overloaded` when the tenant's share of the queue is full, `store_unavailable`
   * when its log is unsound or the store failed, `idempotency_conflict` when the record's idempotency scope is taken by another payload, `internal` when the store refuses this very record, such as one whose id is taken.
   */
  append(record: NewRecord, span?: Span): Promise<Appended> {
    return new Promise((resolve, reject) => {
      this.#requireOpen(record.tenantId);
      this.#push(record.tenantId, [{ ...this.encode(record), span, resolve, reject }]);
    });
  }

  /** Queues records of one tenant for one write. Rejects or throws like `append`, each record by itself. */
  appendTogether(tenantId: TenantId, records: readonly EncodedRecord[], span?: Span): readonly Promise<Appended>[] {
    this.#requireOpen(tenantId);
    const appended = records.map(() => Promise.withResolvers<Appended>());
    const waiting = records.map((record, i) => {
      const { resolve, reject } = appended[i] as PromiseWithResolvers<Appended>;
      return { ...record, span: i === 0 ? span : undefined, together: i === 0 ? records.length : 1, resolve, reject };
    });
    if (waiting.length > 0) this.#push(tenantId, waiting);
    return appended.map(({ promise }) => promise);
  }

  #requireOpen(tenantId: TenantId): void {
    if (this.#closed !== undefined) throw unavailable("The ledger is closed.");
    const refusal = this.#anchor?.refusal(tenantId);
    if (refusal !== undefined) throw refusal;
  }

  #push(tenantId: TenantId, records: readonly ToWrite[]): void {
    const sinceMs = this.#queue?.elapsedMs() ?? 0;
    const waiting = records.map((record) => this.#limited(tenantId, record, sinceMs));
    if (!this.#queues.push(tenantId, ...waiting)) {
      // The caller gets the throw; a remaining time limit would reject a promise without a reader.
      for (const { written } of waiting) written();
      throw overloaded("too many records are waiting to be stored");
    }
    this.#queued += waiting.length;
    this.#schedule();
  }

  /**
   * Applies the time limit to the whole wait: earlier writes, retries, and the write itself. If the limit ends during
   * the write, its outcome is unknown.
   */
  #limited(tenantId: TenantId, record: ToWrite, sinceMs: number): Waiting {
    const { maxWaitMs } = this.#limits;
    if (maxWaitMs === Number.POSITIVE_INFINITY)
      return { ...record, sinceMs, endsAtMs: maxWaitMs, written: () => {}, isOver: () => false };
    let isOver = false;
    const cancel = this.#timers.after(maxWaitMs, () => {
      isOver = true;
      this.#queues.remove(tenantId, waiting);
      record.reject(unavailable("The record store did not do it in time."));
      this.#settleClose();
    });
    const waiting: Waiting = {
      ...record,
      sinceMs,
      endsAtMs: performance.now() + maxWaitMs,
      written: cancel,
      isOver: () => isOver,
      reject: (error) => {
        cancel();
        record.reject(error);
      },
    };
    return waiting;
  }

  get waiting(): number {
    return this.#queues.size;
  }

  /** Refuses further records; resolves when those that wait have been written or refused. */
  close(): Promise<void> {
    this.#closed ??= Promise.withResolvers();
    this.#settleClose();
    return this.#closed.promise;
  }

  encode(record: NewRecord): EncodedRecord {
    return encodeRecord(record, this.#limits.maxRecordBytes);
  }

  /**
   * Starts writing once the event loop has been through its events: calls that arrived together, and calls that their
   * answered callers make at once, so share a commit.
   */
  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    this.#gather(this.#limits.gatherTurns);
  }

  #gather(turnsLeft: number): void {
    const queued = this.#queued;
    outsideConnections(setImmediate, () => {
      if (turnsLeft > 0 && this.#queued > queued) return this.#gather(turnsLeft - 1);
      this.#scheduled = false;
      for (const patience of patiences)
        while (this.#queues.hasReady(patience) && this.#mayWrite(patience)) void this.#writeNext(patience);
    });
  }

  #mayWrite(patience: Patience): boolean {
    const { maxWritesInFlight, maxWritesApart } = this.#limits;
    const most = { none: maxWritesInFlight, moment: 1, full: maxWritesApart };
    return this.#writes[patience] < most[patience] && this.#answersWaiting < maxAnswersWaiting;
  }

  async #writeNext(patience: Patience): Promise<void> {
    const shares = this.#queues.take(patience);
    this.#reportWaits(shares);
    const leave = this.#enter(patience);
    try {
      await this.#write(shares, patience);
    } catch (cause) {
      this.#refuse(shares, cause);
    } finally {
      leave();
      this.#queues.release(shares);
      this.#goOn();
      this.#settleClose();
    }
  }

  #reportWaits(shares: readonly Share[]): void {
    if (this.#queue?.waited === undefined) return;
    const nowMs = this.#queue.elapsedMs();
    for (const { waiting } of shares) for (const { sinceMs } of waiting) this.#queue.waited(nowMs - sinceMs);
  }

  /** Writes queued records, if there are any. */
  #goOn(): void {
    if (patiences.some((patience) => this.#queues.hasReady(patience))) this.#schedule();
  }

  /** Counts a write until it ends or becomes slow. Returns the function that ends it. */
  #enter(patience: Patience): () => void {
    const { slowWriteMs } = this.#limits;
    let isCounted = true;
    const leave = () => {
      if (isCounted) this.#writes[patience] -= 1;
      isCounted = false;
    };
    this.#writes[patience] += 1;
    if (slowWriteMs === Number.POSITIVE_INFINITY) return leave;
    const cancel = this.#timers.after(slowWriteMs, () => {
      leave();
      this.#goOn();
    });
    return () => {
      cancel();
      leave();
    };
  }

  /** Writes shares. Halves a share that fails because of its data, until the bad record stands alone. */
  async #write(shares: readonly Share[], patience: Patience): Promise<void> {
    const anchored = shares.map(({ tenantId }) => this.#anchor?.anchored(tenantId));
    const batches = shares.map(batchOf);
    const span = commitSpan(shares);
    const endsAtMs = Math.min(...shares.flatMap(({ waiting }) => waiting.map((record) => record.endsAtMs)));
    const answers = new EarlyAnswers(this.#signer);
    const foresee = (result: BatchResult) => answers.make(result);
    // If another anchor must confirm first, its results get lines after that.
    const onForeseen = this.#anchor === undefined ? foresee : undefined;
    const outcomes = await this.#writer.write(batches, patience, endsAtMs, onForeseen).catch((error: unknown) => {
      span?.end(error);
      if (!(error instanceof UnstorableError)) throw error;
      return error;
    });
    span?.end();
    if (outcomes instanceof UnstorableError) return this.#writeHalves(shares, patience, outcomes);
    const unstorable = shares.flatMap((share, index) => {
      const error = this.#answer(share, outcomes[index], answers, anchored[index], span);
      return error === undefined ? [] : [{ share, error }];
    });
    for (const { share, error } of unstorable) await this.#writeHalves([share], patience, error);
  }

  /** Answers the callers of a share. Returns the error if its data is the reason. */
  #answer(
    share: Share,
    outcome: BatchOutcome | undefined,
    answers: EarlyAnswers,
    since: AnchoredLog | undefined,
    span: Span | undefined,
  ): UnstorableError | undefined {
    const { waiting } = share;
    if (outcome === undefined) throw new Error("The store left a batch unanswered.");
    if ("left" in outcome) {
      this.#contention.noteLeft(share.tenantId, outcome);
      this.#queues.giveBack(share);
      return undefined;
    }
    if ("results" in outcome) {
      this.#contention.noteWritten(share.tenantId);
      for (const record of waiting) record.written();
      if (outcome.results.length !== waiting.length) throw new Error("The store left a record unanswered.");
      if (this.#anchor === undefined) answerBatch(waiting, answers.of(outcome));
      else void this.#answerAnchored(share, outcome, this.#anchor, since, span);
      return undefined;
    }
    if (outcome.error instanceof UnstorableError) return outcome.error;
    const refusal = storeFailure(outcome.error);
    for (const { reject } of waiting) reject(refusal);
    // Records that arrived meanwhile have waited as well, and would wait as long again.
    if (outcome.isLate === true) for (const { reject } of this.#queues.drain(share.tenantId)) reject(refusal);
    return undefined;
  }

  /** Answers once the shared anchor has what was written. Other writes go on meanwhile. Does not reject. */
  async #answerAnchored(
    { tenantId, waiting }: Share,
    result: BatchResult,
    anchor: SharedAnchor,
    since: AnchoredLog | undefined,
    span: Span | undefined,
  ): Promise<void> {
    this.#answersWaiting += 1;
    try {
      const newest = newestTree(result);
      if (newest !== undefined) {
        const log = { tenantId, origin: result.log, ...newest.tree };
        await traced(span, "ledger.witnesses", (waiting) =>
          anchor.appended(log, newest.isFresh ? since : undefined, waiting),
        );
      }
      answerBatch(waiting, answersOf(result, this.#signer));
    } catch (cause) {
      const refusal = storeFailure(cause);
      for (const { reject } of waiting) reject(refusal);
    } finally {
      this.#answersWaiting -= 1;
      this.#goOn();
      this.#settleClose();
    }
  }

  async #writeHalves(shares: readonly Share[], patience: Patience, cause: UnstorableError): Promise<void> {
    const halves = halve(shares);
    if (halves !== undefined) {
      // One after the other, so that a tenant in both halves keeps its order.
      for (const half of halves) await this.#write(half, shares.length === 1 ? "full" : patience);
      return;
    }
    const refusal =
      cause instanceof UnsoundLogError
        ? unavailable("The log cannot be continued.", cause)
        : new ServiceError("internal", "The record cannot be stored.", { cause });
    for (const { reject } of shares.flatMap(({ waiting }) => waiting)) reject(refusal);
  }

  /** The store failed: rejects everything that is queued now, rather than after one failing write each. */
  #refuse(shares: readonly Share[], cause: unknown): void {
    const refusal = storeFailure(cause);
    // Callers of the same write that were answered before ignore this.
    for (const { reject } of shares.flatMap(({ waiting }) => waiting)) reject(refusal);
    for (const { reject } of this.#queues.drain()) reject(refusal);
  }

  #settleClose(): void {
    if (this.#closed !== undefined && this.#queues.isIdle && this.#answersWaiting === 0) this.#closed.resolve();
  }
}
