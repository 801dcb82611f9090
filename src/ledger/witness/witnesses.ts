/**
 * Witnesses as an anchor (C2SP tlog-witness): each committed state is submitted to all of them. If answers wait for
 * them, a state counts as anchored when a quorum of more than half has cosigned it, so that any later quorum has at
 * least one witness that knows whatever was answered. If not, the witnesses follow as they can.
 */
import type { Clock } from "../../base/clock.ts";
import { type ServiceError, storeUnavailable } from "../../base/errors.ts";
import type { TenantId } from "../../base/ids.ts";
import { orUndefined } from "../../base/json.ts";
import type { Timers } from "../../base/timers.ts";
import type { Span } from "../../base/trace.ts";
import type { SharedAnchor } from "../ports/anchor.ts";
import { type CosignatureStore, type LogState, type StoredCosignature, UnsoundLogError } from "../ports/store.ts";
import { type Checkpoint, checkpointText } from "../tlog/checkpoint.ts";
import { type CosignatureVerifier, findCosignature } from "./cosignature.ts";
import { WitnessQuorum } from "./quorum.ts";
import { isTree, type TrustedWitness, WitnessLog, type WitnessLogSource, type WitnessStatus } from "./witness-log.ts";

interface WitnessesOptions {
  /** How many witnesses must have cosigned a state. */
  readonly quorum: number;
  /** Whether answers wait for the quorum. */
  readonly awaited: boolean;
  readonly witnesses: readonly TrustedWitness[];
  readonly logs: WitnessLogSource & CosignatureStore & { logs(): Promise<readonly LogState[]> };
  readonly clock: Clock;
  readonly timers: Timers;
  /** Called for the result of each request to a witness. */
  readonly onResult?: (result: WitnessResult) => void;
}

export interface WitnessResult {
  readonly witness: string;
  readonly origin: string;
  readonly status: WitnessStatus;
  /** Whether the result of the log's request before was another. */
  readonly isNew: boolean;
}

/** How long an answer waits for the quorum, and the start for all logs. Milliseconds. */
const quorumWaitMs = 5_000;
const startWaitMs = 10_000;
/** Pause before failed witnesses are asked again; it doubles up to the maximum. Milliseconds. */
const firstRetryMs = 1_000;
const lastRetryMs = 60_000;
/** Pause between two writes of cosignatures. Milliseconds. */
const saveIntervalMs = 1_000;

export class Witnesses implements SharedAnchor {
  readonly #options: WitnessesOptions;
  readonly #logs = new Map<TenantId, WitnessQuorum>();
  readonly #byOrigin = new Map<string, WitnessQuorum>();
  /** Logs at witnesses whose newest cosignature is not stored. */
  readonly #unsaved = new Map<WitnessLog, TenantId>();
  readonly #reported = new Map<WitnessLog, string>();
  /** Witnesses whose newest exchange failed about a log that they had cosigned. */
  readonly #down = new Set<WitnessLog["witness"]>();
  #cancelSave: (() => void) | undefined;
  #cancelRetry: (() => void) | undefined;
  #retryMs = firstRetryMs;
  #closed = false;

  constructor(options: WitnessesOptions) {
    this.#options = options;
  }

  /** Submits every log to the witnesses. Resolves after all answers, or ten seconds. Rejects if the store does. */
  async start(): Promise<void> {
    const { logs, timers } = this.#options;
    const stored = Map.groupBy(await logs.cosignatures(), ({ tenantId }) => tenantId);
    for (const log of await logs.logs()) this.#add(log, stored.get(log.tenantId) ?? []);
    const late = Promise.withResolvers<void>();
    const cancel = timers.after(startWaitMs, late.resolve);
    await Promise.race([Promise.all([...this.#logs.values()].map((log) => log.ask())), late.promise]);
    cancel();
  }

  refusal(tenantId: TenantId): ServiceError | undefined {
    const log = this.#logs.get(tenantId);
    if (log === undefined) return undefined;
    if (log.problem !== undefined) return cannotBeContinued(log.problem);
    if (log.isAdmitted) return undefined;
    void log.ask();
    return storeUnavailable("The witnesses of the log have not confirmed its state.");
  }

  anchored(tenantId: TenantId): LogState | undefined {
    return this.#logs.get(tenantId)?.anchored;
  }

  async appended(state: LogState, since: LogState | undefined, span?: Span): Promise<void> {
    const log = this.#noted(state);
    if (since !== undefined) log.requireProgress(state, since);
    await requireSound(log, () =>
      this.#options.awaited ? log.quorum(state, quorumWaitMs, span) : Promise.resolve(log.follow(span)),
    );
  }

  async confirm(state: LogState): Promise<void> {
    const log = this.#noted(state);
    await requireSound(log, () => (this.#options.awaited ? log.quorum(state, quorumWaitMs) : log.catchUp()));
  }

  cosignatures({ origin, size, root }: Checkpoint): string {
    const trees = this.#byOrigin.get(origin)?.atWitnesses.map(({ newest }) => newest) ?? [];
    return trees.flatMap((tree) => (isTree(tree, { size, root }) ? [tree.line] : [])).join("");
  }

  /** Remarks for operators, one line each; empty if every witness has cosigned every log. */
  remarks(): readonly string[] {
    const all = [...this.#logs.values()];
    return this.#options.witnesses.flatMap(({ verifier: { name } }, position) => {
      const statuses = all.map(({ atWitnesses }) => (atWitnesses[position] as WitnessLog).status);
      const problems = statuses.flatMap((status) => ("message" in status ? [status.message] : []));
      const [first] = problems;
      if (first === undefined) return [];
      return [`witness ${name}: ${first}${problems.length > 1 ? `, and ${problems.length - 1} more logs` : ""}`];
    });
  }

  /**
   * Whether answers cannot get a quorum: too many witnesses failed that had cosigned before, and have cosigned nothing
   * since. Logs without requests in that time do not count.
   */
  get isWaitingInVain(): boolean {
    const { awaited, quorum, witnesses } = this.#options;
    const spare = witnesses.length - quorum;
    const logs = [...this.#logs.values()];
    const noneGetsIt = logs.length > 0 && logs.every(({ failing }) => failing > spare);
    return awaited && (this.#down.size > spare || noneGetsIt);
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelRetry?.();
    await this.#save();
  }

  #noted(state: LogState): WitnessQuorum {
    let log = this.#logs.get(state.tenantId);
    if (log === undefined) {
      log = this.#add(state, []);
      log.admit();
    }
    log.note(state);
    return log;
  }

  #add(state: LogState, stored: readonly StoredCosignature[]): WitnessQuorum {
    const { witnesses, logs, clock, timers, quorum, awaited } = this.#options;
    const context = { logs, clock, onEnded: (atWitness: WitnessLog) => this.#ended(atWitness, state.tenantId) };
    const atWitnesses = witnesses.map(
      (witness) => new WitnessLog(witness, state, soundTree(state, witness.verifier, stored, clock), context),
    );
    const log = new WitnessQuorum(state, atWitnesses, { quorum, awaited, timers, head: (name) => logs.head(name) });
    this.#logs.set(state.tenantId, log);
    this.#byOrigin.set(state.origin, log);
    return log;
  }

  #ended(atWitness: WitnessLog, tenantId: TenantId): void {
    if (this.#closed) return;
    const { witness, status, log, newest } = atWitness;
    if (status.kind === "cosigned") this.#down.delete(witness);
    else if (status.kind === "failed" && newest !== undefined) this.#down.add(witness);
    const text = "message" in status ? status.message : status.kind;
    const isNew = this.#reported.get(atWitness) !== text;
    this.#reported.set(atWitness, text);
    this.#options.onResult?.({ witness: witness.name, origin: log.origin, status, isNew });
    if (status.kind === "cosigned") this.#saveSoon(atWitness, tenantId);
    else this.#retrySoon();
  }

  #retrySoon(): void {
    if (this.#cancelRetry !== undefined || this.#closed) return;
    this.#cancelRetry = this.#options.timers.after(this.#retryMs, () => {
      this.#retryMs = Math.min(lastRetryMs, this.#retryMs * 2);
      const failed = [...this.#logs.values()].filter((log) => log.failing > 0 || log.problem !== undefined);
      void Promise.all(failed.map((log) => log.retry())).then((results) => {
        this.#cancelRetry = undefined;
        if (results.every((isWell) => isWell)) this.#retryMs = firstRetryMs;
        else this.#retrySoon();
      });
    });
  }

  /** Cosignatures are stored in batches, not at every commit: losing the newest costs one request to the witness. */
  #saveSoon(atWitness: WitnessLog, tenantId: TenantId): void {
    this.#unsaved.set(atWitness, tenantId);
    if (!this.#closed) this.#cancelSave ??= this.#options.timers.after(saveIntervalMs, () => void this.#save());
  }

  /** A failed write is retried later: nothing depends on it. */
  async #save(): Promise<void> {
    this.#cancelSave?.();
    this.#cancelSave = undefined;
    const entries = [...this.#unsaved];
    this.#unsaved.clear();
    const cosignatures = entries.flatMap(([{ witness, newest }, tenantId]) =>
      newest === undefined ? [] : [{ tenantId, witness: witness.name, keyId: witness.keyId, ...newest }],
    );
    if (cosignatures.length === 0) return;
    await this.#options.logs.storeCosignatures(cosignatures).catch(() => {
      for (const [atWitness, tenantId] of entries) this.#saveSoon(atWitness, tenantId);
    });
  }
}

/** The stored tree of the witness, if its line still verifies: an invalid line would make every checkpoint invalid. */
function soundTree(
  { origin }: LogState,
  verifier: CosignatureVerifier,
  stored: readonly StoredCosignature[],
  clock: Clock,
): StoredCosignature | undefined {
  const own = stored.find(({ witness, keyId }) => witness === verifier.name && keyId === verifier.keyId);
  if (own === undefined) return undefined;
  const text = checkpointText({ origin, ...own });
  const line = orUndefined(() => findCosignature(own.line, text, verifier, clock.now()));
  return line === undefined ? undefined : own;
}

/** Does the work on a log that has no problem, before or after. */
async function requireSound(log: WitnessQuorum, work: () => Promise<void>): Promise<void> {
  if (log.problem !== undefined) throw cannotBeContinued(log.problem);
  await work().catch((error: unknown) => {
    // A problem of the log takes precedence over a missing quorum.
    if (log.problem === undefined) throw error;
  });
  if (log.problem !== undefined) throw cannotBeContinued(log.problem);
}

function cannotBeContinued(problem: string): ServiceError {
  return storeUnavailable("The log cannot be continued.", new UnsoundLogError(problem));
}
