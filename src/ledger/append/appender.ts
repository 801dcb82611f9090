/**
 * Group commit. Callers queue per tenant; one write carries what many of them wait for, so that they share one durable
 * commit; each is answered only when that commit is confirmed.
 */
import { overloaded, ServiceError, storeUnavailable } from "../../base/errors.ts";
import type { TenantId } from "../../base/ids.ts";
import { outsideConnections, systemTimers, type Timers } from "../../base/timers.ts";
import { type Span, traced } from "../../base/trace.ts";
import type { SharedAnchor } from "../ports/anchor.ts";
import type { Appended } from "../ports/ledger.ts";
import type { NewRecord } from "../ports/record.ts";
import {
  type BatchOutcome,
  type BatchResult,
  type BatchWriter,
  type LogState,
  UnsoundLogError,
  UnstorableError,
} from "../ports/store.ts";
import type { CheckpointSigner } from "../tlog/signer.ts";
import { answerBatch, newestTree, storeFailure } from "./answering.ts";
import type { AppenderLimits } from "./limits.ts";
import { batchOf, type QueuedRecord, type Share, TenantQueues, type Waiting } from "./queues.ts";
import { encodeRecord } from "./record-text.ts";

/** Receives what happens to appends. Functions must return at once and not throw. */
export interface AppendEvents {
  /**
   * Called after each write that made at least one record durable, before the callers are answered. Retries answered
   * from an earlier write are not counted. The duration is that of the whole write.
   */
  committed?(records: number, durationMs: number): void;
  /** Called with the time that a record waited for its write. */
  waited?(waitedMs: number): void;
  /** Called for every append, or group of them, that the store refused. */
  failed?(): void;
}

/** Writes whose answers wait for the shared anchor. */
const maxAnswersWaiting = 32;

/** Largest text of one record in UTF-8. The largest request, every character escaped, is smaller. */
const maxRecordBytes = 1024 * 1024;

export interface AppenderOptions {
  readonly limits: AppenderLimits;
  /** The anchor besides the store's own, if there is one. */
  readonly anchor?: SharedAnchor | undefined;
  readonly events?: AppendEvents | undefined;
  readonly timers?: Timers;
}

export class Appender {
  readonly #writer: BatchWriter;
  readonly #signer: CheckpointSigner;
  readonly #limits: AppenderLimits;
  readonly #anchor: SharedAnchor | undefined;
  readonly #queues: TenantQueues;
  readonly #timers: Timers;
  readonly #events: AppendEvents;
  #writes = 0;
  #queued = 0;
  #answersWaiting = 0;
  #scheduled = false;
  #closed: PromiseWithResolvers<void> | undefined;

  constructor(
    writer: BatchWriter,
    signer: CheckpointSigner,
    { limits, anchor, events = {}, timers = systemTimers }: AppenderOptions,
  ) {
    this.#events = events;
    this.#timers = timers;
    this.#writer = writer;
    this.#anchor = anchor;
    this.#signer = signer;
    this.#limits = limits;
    this.#queues = new TenantQueues(limits);
  }

  /**
   * Resolves when the record is durable. Rejects with `ServiceError`: `invalid_request` for a record that is too large
   * or cannot be written as canonical JSON, `overloaded` when the tenant's share of the queue is full,
   * `store_unavailable` when its log is unsound or the store failed, `idempotency_conflict` when the record's
   * idempotency scope is taken by another payload, `internal` when the store refuses this very record, such as one whose
   * id is taken.
   */
  async append(record: NewRecord, span?: Span): Promise<Appended> {
    this.#requireOpen(record.tenantId);
    const [appended] = this.#push(record.tenantId, [this.encode(record)], span);
    return appended as Promise<Appended>;
  }

  /** Queues records of one tenant for one write. Rejects or throws like `append`, each record by itself. */
  appendTogether(tenantId: TenantId, records: readonly QueuedRecord[], span?: Span): readonly Promise<Appended>[] {
    this.#requireOpen(tenantId);
    return records.length === 0 ? [] : this.#push(tenantId, records, span);
  }

  /** Throws `ServiceError` `invalid_request` for a record that is too large, or has no canonical JSON. */
  encode(record: NewRecord): QueuedRecord {
    try {
      const encoded = encodeRecord(record);
      const sizeBytes = Buffer.byteLength(encoded.text);
      if (sizeBytes <= maxRecordBytes) return { record: encoded, sizeBytes };
    } catch (cause) {
      const problem = cause instanceof Error ? cause.message : "cannot be recorded";
      throw new ServiceError("invalid_request", `The request ${problem}.`, { cause });
    }
    throw new ServiceError(
      "invalid_request",
      `The request is too large to be recorded (over ${maxRecordBytes} bytes).`,
    );
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

  #requireOpen(tenantId: TenantId): void {
    if (this.#closed !== undefined) throw storeUnavailable("The ledger is closed.");
    const refusal = this.#anchor?.refusal(tenantId);
    if (refusal !== undefined) throw refusal;
  }

  /**
   * Queues records for one write. The time limit of each applies to its whole wait: earlier writes, retries, and the
   * write itself. If the limit ends during the write, its outcome is unknown.
   */
  #push(tenantId: TenantId, records: readonly QueuedRecord[], span: Span | undefined): readonly Promise<Appended>[] {
    const { maxWaitMs } = this.#limits;
    const sinceMs = performance.now();
    const waiting = records.map((record, i): Waiting => {
      const group = i === 0 ? { span, together: records.length } : {};
      const times = { sinceMs, endsAtMs: sinceMs + maxWaitMs };
      return { ...record, ...group, ...times, ...Promise.withResolvers<Appended>(), written() {} };
    });
    if (!this.#queues.push(tenantId, waiting)) throw overloaded("too many records are waiting to be stored");
    for (const record of waiting)
      record.written = this.#after(maxWaitMs, () => {
        this.#queues.remove(tenantId, record);
        record.reject(storeUnavailable("The record store did not do it in time."));
        this.#settleClose();
      });
    this.#queued += waiting.length;
    this.#schedule();
    return waiting.map(({ promise }) => promise);
  }

  /** Does something after a time, unless that is infinite. Returns the function that cancels it. */
  #after(delayMs: number, action: () => void): () => void {
    return delayMs === Number.POSITIVE_INFINITY ? () => {} : this.#timers.after(delayMs, action);
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
      const { maxWritesInFlight } = this.#limits;
      while (this.#queues.hasReady && this.#writes < maxWritesInFlight && this.#answersWaiting < maxAnswersWaiting)
        void this.#write(this.#take());
    });
  }

  #take(): readonly Share[] {
    const shares = this.#queues.take();
    const nowMs = performance.now();
    if (this.#events.waited !== undefined)
      for (const { waiting } of shares) for (const { sinceMs } of waiting) this.#events.waited(nowMs - sinceMs);
    return shares;
  }

  /** Writes queued records, if there are any. */
  #goOn(): void {
    if (this.#queues.hasReady) this.#schedule();
    this.#settleClose();
  }

  /** Counts a write until it ends or becomes slow. Returns the function that ends it. */
  #enter(): () => void {
    let isCounted = true;
    this.#writes += 1;
    const leave = () => {
      cancel();
      if (!isCounted) return;
      isCounted = false;
      this.#writes -= 1;
      this.#goOn();
    };
    const cancel = this.#after(this.#limits.slowWriteMs, leave);
    return leave;
  }

  /** Writes shares, each of another tenant, and releases every tenant once its callers are answered. Does not reject. */
  async #write(shares: readonly Share[]): Promise<void> {
    const writes = await this.#attempt(shares);
    if (writes === undefined) return this.#inHalves(shares, (half) => this.#write(half));
    const settling: Promise<void>[] = [];
    for (const [at, write] of writes.entries()) {
      if (at > 0 && at % this.#limits.tenantsAnsweredAtOnce === 0) await new Promise(setImmediate);
      const settled = this.#settle(write).then(() => {
        this.#queues.release(write.share.tenantId);
        this.#goOn();
      });
      settling.push(settled);
    }
    await Promise.all(settling);
  }

  /** One half after the other, so that a tenant's records keep their order. */
  async #inHalves<Part>(parts: readonly Part[], write: (half: readonly Part[]) => Promise<void>): Promise<void> {
    const middle = parts.length >> 1;
    for (const half of [parts.slice(0, middle), parts.slice(middle)]) await write(half);
  }

  /** Resolves with the write of every share; with undefined if nothing was stored because of the data of one of several. */
  async #attempt(shares: readonly Share[]): Promise<readonly Write[] | undefined> {
    const anchored = shares.map(({ tenantId }) => this.#anchor?.anchored(tenantId));
    const span = commitSpan(shares);
    const startedMs = performance.now();
    const leave = this.#enter();
    const writesOf = (outcomeAt: (at: number) => BatchOutcome | undefined) =>
      shares.map((share, at) => ({ share, outcome: outcomeAt(at), since: anchored[at], span, startedMs }));
    try {
      const outcomes = await this.#writer.write(shares.map(batchOf));
      span?.end();
      this.#reportCommit(outcomes, startedMs);
      return writesOf((at) => outcomes[at]);
    } catch (error) {
      span?.end(error);
      if (error instanceof UnstorableError && shares.length > 1) return undefined;
      // The store failed: rejects everything that is queued now, rather than after one failing write each.
      if (!(error instanceof UnstorableError)) refuse(this.#queues.drain(), storeFailure(error));
      return writesOf(() => ({ error }));
    } finally {
      leave();
    }
  }

  #reportCommit(outcomes: readonly BatchOutcome[], startedMs: number): void {
    const records = outcomes.reduce((sum, outcome) => sum + appendedBy(outcome), 0);
    if (records > 0) this.#events.committed?.(records, performance.now() - startedMs);
  }

  /** Answers the callers of a share. Halves a share that fails because of its data, until the bad record stands alone. */
  async #settle(write: Write): Promise<void> {
    const { share, startedMs } = write;
    const { tenantId, waiting } = share;
    let { outcome } = write;
    if (outcome !== undefined && "later" in outcome) {
      outcome = await outcome.later;
      this.#reportCommit([outcome], startedMs);
    }
    if (outcome === undefined) return refuse(waiting, storeFailure(new Error("The store left a batch unanswered.")));
    if ("results" in outcome) return void this.#answer(write, outcome);
    const { error } = outcome;
    if (!(error instanceof UnstorableError)) return refuse(waiting, storeFailure(error));
    if (waiting.length === 1) return refuse(waiting, refusalOf(error));
    await this.#inHalves(waiting, async (half) => {
      for (const part of (await this.#attempt([{ tenantId, waiting: half }])) ?? []) await this.#settle(part);
    });
  }

  /** Answers a share, once the shared anchor has what was written. Other writes go on meanwhile. Does not reject. */
  async #answer({ share, since, span }: Write, result: BatchResult): Promise<void> {
    const { tenantId, waiting } = share;
    const anchor = this.#anchor;
    for (const { written } of waiting) written();
    this.#answersWaiting += 1;
    try {
      const newest = anchor && newestTree(result);
      if (anchor !== undefined && newest !== undefined) {
        const log = { tenantId, origin: result.log, ...newest.tree };
        await traced(span, "ledger.witnesses", (waiting) =>
          anchor.appended(log, newest.isFresh ? since : undefined, waiting),
        );
      }
      answerBatch(waiting, result, this.#signer);
    } catch (cause) {
      refuse(waiting, storeFailure(cause));
    } finally {
      this.#answersWaiting -= 1;
      this.#goOn();
    }
  }

  #settleClose(): void {
    if (this.#closed !== undefined && this.#queues.isIdle && this.#answersWaiting === 0) this.#closed.resolve();
  }
}

/** The write of a share that has ended. */
interface Write {
  readonly share: Share;
  readonly outcome: BatchOutcome | undefined;
  /** The anchored state of the log when the write began. */
  readonly since: LogState | undefined;
  readonly span: Span | undefined;
  readonly startedMs: number;
}

/** Begins the span of a write; undefined if none of its appends is exported. */
function commitSpan(shares: readonly Share[]): Span | undefined {
  const spans = shares.flatMap(({ waiting }) => waiting.flatMap(({ span }) => span ?? []));
  const commit = spans[0]?.shared("ledger.commit", spans);
  const records = shares.reduce((sum, { waiting }) => sum + waiting.length, 0);
  commit?.set({ "svc.commit.records": records, "svc.commit.tenants": shares.length });
  return commit;
}

function appendedBy(outcome: BatchOutcome): number {
  if (!("results" in outcome)) return 0;
  return outcome.results.filter((result) => typeof result !== "string" && result.earlierAnswer === undefined).length;
}

function refuse(waiting: readonly Waiting[], refusal: ServiceError): void {
  for (const { written, reject } of waiting) {
    written();
    reject(refusal);
  }
}

function refusalOf(cause: UnstorableError): ServiceError {
  return cause instanceof UnsoundLogError
    ? storeUnavailable("The log cannot be continued.", cause)
    : new ServiceError("internal", "The record cannot be stored.", { cause });
}
