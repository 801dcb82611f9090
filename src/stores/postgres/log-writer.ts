/** Appends batches to logs: which of them share a transaction, what is retried, and how unknown outcomes are settled. */
import { createSemaphore, type Semaphore } from "../../base/fair-queue.ts";
import type { TenantId } from "../../base/ids.ts";
import { systemTimers } from "../../base/timers.ts";
import {
  type BatchFailure,
  type BatchOutcome,
  type BatchResult,
  type LogState,
  type TenantBatch,
  UnstorableError,
} from "../../ledger/ports/store.ts";
import { type LogName, logNameOf } from "../../ledger/tlog/log-name.ts";
import { type Appended, appendBatches, maxShared, type PartOutcome, type Taking } from "../sql/appending.ts";
import { headByName } from "../sql/log-rows.ts";
import { LogTools, type LogToolsOptions, nameLog } from "../sql/log-tools.ts";
import { refuseUnsound } from "../sql/store-checks.ts";
import { slowAfterMs } from "./connection/bulkhead.ts";
import { isConnectionLost, isLockTimeout, toError } from "./connection/errors.ts";
import { type ConnectionPool, ofMany } from "./connection/pool.ts";

/** Lock timeout of a transaction of many tenants. Transactions of tenants that are not stuck take much less. */
const sharedLockTimeoutMs = 250;

export interface LogWriterOptions extends LogToolsOptions {
  readonly pool: ConnectionPool;
  /** Transactions of one tenant at a time, without those that are slow. Default: 1. */
  readonly maxApart?: number;
  /** Whether the tables are distributed over nodes: then every tenant has its own transactions. */
  readonly isDistributed?: boolean;
}

const neverAborted = new AbortController().signal;

const nothing: Appended = { outcomes: new Map(), logs: [] };

export class LogWriter {
  readonly #pool: ConnectionPool;
  readonly #tools: LogTools;
  readonly #apart: Semaphore;
  readonly #isDistributed: boolean;

  constructor({ pool, maxApart = 1, isDistributed = false, ...tools }: LogWriterOptions) {
    this.#pool = pool;
    this.#apart = createSemaphore(maxApart, Number.POSITIVE_INFINITY);
    this.#isDistributed = isDistributed;
    this.#tools = new LogTools(tools);
  }

  /**
   * Appends each batch to its tenant's log. Heads that another replica has locked are skipped, then awaited together
   * with a short lock timeout; a batch whose head stays locked, or that the others would wait for, gets a transaction of
   * one tenant. So one stuck log never blocks the others. Rejects if no batch was stored.
   */
  async write(batches: readonly TenantBatch[]): Promise<readonly BatchOutcome[]> {
    const shared = this.#isDistributed ? [] : batches.filter((batch) => this.#mayShare(batch));
    const { outcomes } = await this.#append(shared, "skip").catch((reason: unknown) => {
      const error = toError(reason);
      // All callers are answered without another attempt.
      if (isConnectionLost(reason)) throw error;
      return { outcomes: new Map<TenantId, PartOutcome>(shared.map(({ tenantId }) => [tenantId, { error }])) };
    });
    const held = batches.filter(({ tenantId }) => outcomes.get(tenantId) === "held");
    const again = held.length < 2 ? undefined : this.#inTurn(() => this.#append(held, "wait"));
    // Each batch of these reports the failure.
    again?.catch(() => {});
    return batches.map((batch) => {
      const outcome = outcomes.get(batch.tenantId);
      if (typeof outcome === "object") return outcome;
      return { later: this.#later(batch, outcome === "held" ? again : undefined) };
    });
  }

  /** Whether no other tenant would wait for this batch. */
  #mayShare({ tenantId, records }: TenantBatch): boolean {
    return records.length <= maxShared && !this.#pool.bulkhead.isSlow(tenantId);
  }

  /** Resolves with the outcomes of the transaction of many that is under way, or of a transaction of this tenant. */
  async #later(batch: TenantBatch, again: Promise<Appended> | undefined): Promise<BatchResult | BatchFailure> {
    const apart = () => this.#append([batch], "apart");
    try {
      const shared = (await again)?.outcomes.get(batch.tenantId);
      if (typeof shared === "object") return shared;
      const { outcomes } = await this.#inTurn(() => this.#pool.together(apart, batch.endsAtMs));
      return outcomes.get(batch.tenantId) as BatchResult;
    } catch (reason) {
      return { error: toError(reason) };
    }
  }

  /** Does work in its turn. Slow work lets the next begin. Settles as the work does. */
  #inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    return new Promise((resolve, reject) => {
      const untilSlow = async () => {
        const slow = Promise.withResolvers<void>();
        const cancel = systemTimers.after(slowAfterMs, slow.resolve);
        const working = work();
        working.then(resolve, reject);
        await Promise.race([working.catch(() => {}), slow.promise]).finally(cancel);
      };
      this.#apart.run(untilSlow, neverAborted).catch(reject);
    });
  }

  /**
   * Appends batches in one transaction, or leaves some out; of one tenant `apart`, whose log is opened if it is missing.
   * If this rejects, nothing was stored, except with `UnknownOutcomeError`.
   */
  async #append(batches: readonly TenantBatch[], taking: Taking): Promise<Appended> {
    const [first] = batches;
    if (first === undefined) return nothing;
    const isApart = taking === "apart";
    const attempt = async () => {
      // Before the head is looked for: another process may begin and anchor the log at any time.
      const anchored = isApart ? this.#tools.anchor?.find(first.tenantId) : undefined;
      const appended = await this.#pool.transaction(
        (connection) => appendBatches(connection, batches, { taking, tools: this.#tools }),
        isApart ? undefined : sharedLockTimeoutMs,
      );
      const isMissing = isApart && appended.outcomes.size === 0 && first.records.length > 0;
      if (!isMissing) return appended;
      await refuseUnsound(this.#pool, undefined, anchored);
      return this.#open(first);
    };
    try {
      const appended = await this.#pool.retrying(attempt, isApart ? first.tenantId : ofMany);
      this.#tools.keep(appended.logs);
      return appended;
    } catch (error) {
      // Rows of some tenant are locked, or cannot be stored, and the error does not name it: each tenant is retried alone.
      if (!isApart && (isLockTimeout(error) || toError(error) instanceof UnstorableError)) return nothing;
      throw error;
    }
  }

  /**
   * Returns the newest state of a log, durable and anchored, to be signed. A state that was confirmed before is not
   * confirmed again. Undefined if there is no such log. Rejects like `confirm`.
   */
  async head(name: LogName): Promise<LogState | undefined> {
    const head = await headByName(this.#pool, name);
    if (head === undefined) return undefined;
    await this.#tools.keys?.followLog(this.#pool, head.keyPosition);
    return this.#tools.isConfirmed(head) ? head : this.confirm(head.tenantId);
  }

  /**
   * Makes the newest state of a log durable and anchored, and hands the log over to the key that this process signs
   * with, if it has an older one. Undefined if there is no log. Rejects with `UnsoundLogError` if the log contradicts its
   * anchor or its edge is damaged, with `UnknownOutcomeError` if a handover may have become durable, with an error of the
   * driver if not.
   */
  async confirm(tenantId: TenantId): Promise<LogState | undefined> {
    return (await this.#append([{ tenantId, records: [] }], "apart")).logs[0]?.log;
  }

  /** Nothing is announced before the commit: only then is it known which key may sign the log. */
  async #open(batch: TenantBatch): Promise<Appended> {
    const origin = this.#tools.newOrigin();
    // First, in its own statement: the name's row may be on another node than the tenant's rows.
    await this.#pool.write(nameLog, [logNameOf(origin), batch.tenantId]);
    const opened = await this.#pool.transaction((connection) =>
      appendBatches(connection, [batch], { taking: "apart", tools: this.#tools, isBeginning: true, origin }),
    );
    // A concurrent rotation may have missed this log; the old key must then not sign it.
    await this.#tools.keys?.follow(this.#pool);
    return opened;
  }
}
