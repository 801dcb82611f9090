/**
 * A candidate policy set beside the active one: it is asked what the active one was asked, after the answer is given,
 * and only what it would have said differently is told.
 *
 * It cannot change an answer, and hardly delays one: questions wait in a short queue, are taken from it a slice at a
 * time, and a slice ends after `sliceMs` of every `sliceMs + pauseMs`. What does not fit in the queue is left out and
 * counted.
 */

import { isDeepStrictEqual } from "node:util";
import type { TenantId } from "../../base/ids.ts";
import type { Timers } from "../../base/timers.ts";
import type { CompiledEngine } from "../engine/bundle-engine.ts";
import type { Guidance, PolicyDecision, PolicyEngine, PolicyQuery } from "../engine/decision.ts";

/** A decision that the candidate would have made differently. Nothing in it is the caller's text. */
export interface ShadowSample {
  readonly tenantId: TenantId;
  readonly decisionId: string;
  readonly action: PolicyQuery["action"];
  readonly active: PolicyDecision;
  readonly candidate: PolicyDecision;
  readonly difference: DecisionDifference;
  /** How many such differences this tenant has had under this pair of revisions, this one included. */
  readonly count: number;
}

export interface ShadowOptions {
  /** Share of decisions that are compared, 0 to 1. */
  readonly share: number;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly timers: Timers;
  /** Milliseconds since some moment; never goes back. */
  readonly elapsedMs: () => number;
  /** A decision was compared. The tenant is told of where there is a difference. */
  readonly onCompared: (difference: { readonly kind: string; readonly tenantId: TenantId } | undefined) => void;
  /** Decisions that would have been compared were left out. */
  readonly onDropped: () => void;
  /** Called for the 1st, 2nd, 4th, 8th … difference of a kind that a tenant has: few lines, whatever the load. */
  readonly onSample: (sample: ShadowSample) => void;
}

/** Questions are up to about 100 kB each, so that few may wait. */
const maxWaiting = 256;
const sliceMs = 1;
const pauseMs = 9;
/** Pairs of tenant and kind whose differences are counted for samples; further ones are told of in metrics only. */
const maxCounted = 10_000;

interface Waiting {
  readonly query: PolicyQuery;
  readonly decision: PolicyDecision;
  readonly decisionId: string;
}

export class PolicyShadow {
  readonly #options: ShadowOptions;
  readonly #waiting: Waiting[] = [];
  readonly #counts = new Map<string, number>();
  /** Revisions that the counts are of. */
  #pair = "";
  #candidate: CompiledEngine | undefined;
  #callOff: (() => void) | undefined;

  constructor(options: ShadowOptions) {
    this.#options = options;
  }

  /** Revision of the candidate; undefined while there is none. */
  get revision(): string | undefined {
    return this.#candidate?.revision;
  }

  /** Makes the engine the candidate; it is the shadow's to release. */
  replace(engine: CompiledEngine): void {
    this.#candidate?.release();
    this.#candidate = engine;
  }

  /**
   * Takes note of a decision that was made. Returns at once and does not throw.
   *
   * @param isComplete whether the query has all that the ledger knows. Where it has not, because the active set does not
   *   read it, a candidate that does cannot be compared
   */
  observe(query: PolicyQuery, decision: PolicyDecision, decisionId: string, isComplete = true): void {
    const { share, random, onDropped } = this.#options;
    if (this.#candidate === undefined || (share < 1 && random() >= share)) return;
    if (this.#waiting.length >= maxWaiting || (!isComplete && this.#candidate.readsRegistered(query))) {
      onDropped();
      return;
    }
    this.#waiting.push({ query, decision, decisionId });
    this.#wake();
  }

  /** Forgets what waits, and gives the candidate's memory back. */
  release(): void {
    this.#waiting.length = 0;
    this.#callOff?.();
    this.#candidate?.release();
    this.#candidate = undefined;
  }

  #wake(): void {
    this.#callOff ??= this.#options.timers.after(pauseMs, () => {
      this.#callOff = undefined;
      this.#slice();
    });
  }

  #slice(): void {
    const endMs = this.#options.elapsedMs() + sliceMs;
    let taken = 0;
    for (const waiting of this.#waiting) {
      if (this.#candidate !== undefined) this.#compare(this.#candidate, waiting);
      taken++;
      if (this.#options.elapsedMs() >= endMs) break;
    }
    this.#waiting.splice(0, taken);
    if (this.#waiting.length > 0) this.#wake();
  }

  #compare(engine: PolicyEngine, { query, decision: active, decisionId }: Waiting): void {
    const candidate = engine.decide(query);
    const difference = differenceOf(active, candidate);
    const { tenantId } = query.caller;
    this.#options.onCompared(difference && { kind: difference.kind, tenantId });
    if (difference === undefined) return;
    const count = this.#count(`${active.policyRevision} ${candidate.policyRevision}`, `${difference.kind} ${tenantId}`);
    if (!isPowerOfTwo(count)) return;
    this.#options.onSample({ tenantId, decisionId, action: query.action, active, candidate, difference, count });
  }

  /** The next number; 0 where there is no room to count. */
  #count(pair: string, name: string): number {
    if (pair !== this.#pair) {
      this.#pair = pair;
      this.#counts.clear();
    }
    const known = this.#counts.get(name);
    if (known === undefined && this.#counts.size >= maxCounted) return 0;
    this.#counts.set(name, (known ?? 0) + 1);
    return (known ?? 0) + 1;
  }
}

function isPowerOfTwo(count: number): boolean {
  return count > 0 && Number.isInteger(Math.log2(count));
}

/**
 * How a second decision differs from a first, the gravest way only: it denies what was allowed, allows what was denied,
 * guides otherwise, or says the same for other reasons.
 */
export const differenceKinds = ["denies", "allows", "guides", "reasons"] as const;
export type DifferenceKind = (typeof differenceKinds)[number];

export interface DecisionDifference {
  readonly kind: DifferenceKind;
  /** Members of the guidance that differ, sorted; none where one of the two denies. */
  readonly guidance: readonly (keyof Guidance | "obligations" | "alerts")[];
}

/** The difference; undefined where both say the same. Revision and inputs are not part of what is said. */
export function differenceOf(first: PolicyDecision, second: PolicyDecision): DecisionDifference | undefined {
  if (first.allow !== second.allow) return { kind: first.allow ? "denies" : "allows", guidance: [] };
  const names = new Set([...Object.keys(first.guidance), ...Object.keys(second.guidance)] as (keyof Guidance)[]);
  const guidance: DecisionDifference["guidance"][number][] = [...names].filter(
    (name) => !isDeepStrictEqual(first.guidance[name], second.guidance[name]),
  );
  for (const name of ["obligations", "alerts"] as const) {
    if (!isDeepStrictEqual(first[name], second[name])) guidance.push(name);
  }
  guidance.sort();
  if (guidance.length > 0) return { kind: "guides", guidance };
  return isDeepStrictEqual(first.reasons, second.reasons) ? undefined : { kind: "reasons", guidance };
}
