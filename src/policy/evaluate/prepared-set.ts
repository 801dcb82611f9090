/**
 * A policy set that Cedar has parsed once. Cedar keeps such sets by name for the life of the thread and can replace but
 * not remove one, so names are reused: memory follows the number of sets in use at a time, not of reloads. A released
 * set stays until another takes its name, because WebAssembly's memory would not shrink anyway. A prepared set belongs to
 * the thread that made it.
 */
import { cedar, isBrokenEngine } from "../model/cedar.ts";
import type { CedarRequest } from "./cedar-request.ts";

/** Result of a set. `error` if any policy could not be evaluated, whatever Cedar decided. */
export interface SetResult {
  readonly outcome: "allow" | "deny" | "error";
  /** Positions in the set, from 0, of the policies that decided, or that failed; in no particular order. */
  readonly policies: readonly number[];
}

/** Positions of policies in the set, from 0, in no particular order. If a forbid applies, Cedar names no permits. */
export interface Applying {
  readonly permits: readonly number[];
  readonly forbids: readonly number[];
  readonly failed: readonly number[];
}

export const notEvaluated: SetResult = { outcome: "error", policies: [] };

/** Which of a set's policies, by position, count for a question; results and failures of others are ignored. */
export type Counting = (position: number) => boolean;

const everyPolicy: Counting = () => true;

/**
 * Cedar's result for a set of which these apply: any failure is an error, and a forbid overrides.
 *
 * @param counts must include every forbid
 */
export function resultOf({ permits, forbids, failed }: Applying, counts: Counting = everyPolicy): SetResult {
  const failing = failed.filter(counts);
  if (failing.length > 0) return { outcome: "error", policies: failing };
  if (forbids.length > 0) return { outcome: "deny", policies: forbids };
  const permitting = permits.filter(counts);
  return permitting.length > 0 ? { outcome: "allow", policies: permitting } : { outcome: "deny", policies: [] };
}

const freeNames: string[] = [];
let namesMade = 0;

export class PreparedSet {
  readonly #name: string;
  #released = false;

  /** Takes texts of one policy each. Throws a TypeError if they do not parse, although they were checked before. */
  constructor(policies: readonly string[]) {
    this.#name = prepare(policies.join("\n"));
  }

  /**
   * Evaluates the set. Cedar skips a failing policy, even a forbid, and reports it beside an answer that may be allow;
   * this returns an error instead, also for a missing request. Does not throw.
   *
   * @param counts as for `resultOf`
   */
  evaluate(request: CedarRequest | undefined, counts?: Counting): SetResult {
    try {
      const applying = this.diagnose(request);
      return applying === undefined ? notEvaluated : resultOf(applying, counts);
    } catch {
      return notEvaluated;
    }
  }

  /** Returns Cedar's answer; undefined if there is none. Throws if Cedar's engine breaks (`isBrokenEngine`). */
  diagnose(request: CedarRequest | undefined): Applying | undefined {
    if (this.#released || request === undefined) return undefined;
    try {
      const answer = cedar().statefulIsAuthorized({ ...request, preparsedPolicySetId: this.#name });
      if (answer.type === "failure") return undefined;
      const { decision, diagnostics } = answer.response;
      const reasons = diagnostics.reason.map(positionOf);
      return {
        permits: decision === "allow" ? reasons : [],
        forbids: decision === "allow" ? [] : reasons,
        failed: diagnostics.errors.map(({ policyId }) => positionOf(policyId)),
      };
    } catch (error) {
      if (isBrokenEngine(error)) throw error;
      return undefined; // values that Cedar cannot represent
    }
  }

  /** Releases the name. Every later evaluation is an error. Idempotent. */
  release(): void {
    if (this.#released) return;
    this.#released = true;
    freeNames.push(this.#name);
  }
}

/** Returns the name under which Cedar has the set. */
function prepare(text: string): string {
  const name = freeNames.pop() ?? `set-${namesMade++}`;
  // Parsing one text costs Cedar a quarter of parsing its policies separately.
  const answer = cedar().preparsePolicySet(name, { staticPolicies: text });
  if (answer.type === "success") return name;
  freeNames.push(name);
  throw new TypeError(`policies do not parse: ${answer.errors.map(({ message }) => message).join("; ")}`);
}

/** Cedar numbers the policies of a text in order: `policy0`, `policy1` and so on; it ignores `@id`. */
function positionOf(policyId: string): number {
  return Number(policyId.slice("policy".length));
}
