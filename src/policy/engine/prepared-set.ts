/**
 * A policy set that Cedar has parsed once. Cedar keeps such sets by name for the life of the thread and can replace
 * but not remove one, so names are used again: memory follows the number of sets that were in use at a time, not of
 * reloads. A set that is given back stays until another takes its name, as WebAssembly's memory would not shrink
 * anyway. Sets of one text are one, whichever engines and tenants they are of. A prepared set belongs to the thread
 * that made it.
 */
import { hash } from "node:crypto";
import { cedar, isBrokenEngine } from "../cedar.ts";
import type { CedarRequest } from "./cedar-request.ts";

/** Result of a set. `error` where any policy could not be evaluated, whatever Cedar decided besides. */
export interface SetResult {
  readonly outcome: "allow" | "deny" | "error";
  /** Positions in the set, from 0, of the policies that decided, or that failed; in no particular order. */
  readonly policies: readonly number[];
}

/** What Cedar says of each policy that decided, or that failed: positions in the set. */
export interface Diagnosis {
  readonly allows: boolean;
  readonly reasons: readonly number[];
  readonly failed: readonly number[];
}

const failed: SetResult = { outcome: "error", policies: [] };

/** Which of a set's policies, by position, count for a question: of the others nothing is heard, no failure either. */
export type Counting = (position: number) => boolean;

/** All of them. */
export const everyPolicy: Counting = () => true;

interface CedarSet {
  readonly digest: string;
  readonly name: string;
  users: number;
}

/** Sets that Cedar has, by digest of their text. */
const inUse = new Map<string, CedarSet>();
const freeNames: string[] = [];
let namesMade = 0;

export class PreparedSet {
  readonly #set: CedarSet;
  #released = false;

  /** Takes texts of one policy each. Throws a TypeError where they do not parse: they were checked before. */
  constructor(policies: readonly string[]) {
    this.#set = acquire(policies.join("\n"));
  }

  /**
   * Evaluates the set. Cedar skips a policy that fails, a forbid too, and says so beside an answer that may be allow:
   * here that is an error, and so is a missing request. Does not throw.
   *
   * @param counts every forbid among them. Where Cedar allows it names each permit that holds, so that what is left of
   *   them decides as if there were no others
   */
  evaluate(request: CedarRequest | undefined, counts: Counting = everyPolicy): SetResult {
    const diagnosis = this.#diagnoseIfPossible(request);
    if (diagnosis === undefined) return failed;
    const failing = diagnosis.failed.filter(counts);
    if (failing.length > 0) return { outcome: "error", policies: failing };
    if (!diagnosis.allows) return { outcome: "deny", policies: diagnosis.reasons };
    const permits = diagnosis.reasons.filter(counts);
    return { outcome: permits.length > 0 ? "allow" : "deny", policies: permits };
  }

  #diagnoseIfPossible(request: CedarRequest | undefined): Diagnosis | undefined {
    try {
      return this.diagnose(request);
    } catch {
      return undefined;
    }
  }

  /**
   * What Cedar says besides; undefined where it says nothing. Throws where its engine breaks (`isBrokenEngine`):
   * in this thread it then says nothing any more.
   */
  diagnose(request: CedarRequest | undefined): Diagnosis | undefined {
    if (this.#released || request === undefined) return undefined;
    try {
      const answer = cedar().statefulIsAuthorized({ ...request, preparsedPolicySetId: this.#set.name });
      if (answer.type === "failure") return undefined;
      const { decision, diagnostics } = answer.response;
      return {
        allows: decision === "allow",
        reasons: diagnostics.reason.map(positionOf),
        failed: diagnostics.errors.map(({ policyId }) => positionOf(policyId)),
      };
    } catch (error) {
      if (isBrokenEngine(error)) throw error;
      return undefined; // values that Cedar cannot represent
    }
  }

  /** Gives the name back. Every later evaluation is an error. Idempotent. */
  release(): void {
    if (this.#released) return;
    this.#released = true;
    if (--this.#set.users > 0) return;
    inUse.delete(this.#set.digest);
    freeNames.push(this.#set.name);
  }
}

function acquire(text: string): CedarSet {
  const digest = hash("sha256", text, "base64");
  const known = inUse.get(digest);
  if (known !== undefined) {
    known.users++;
    return known;
  }
  const name = freeNames.pop() ?? `set-${namesMade++}`;
  // As one text, policies cost Cedar a quarter of what they cost it as many.
  const answer = cedar().preparsePolicySet(name, { staticPolicies: text });
  if (answer.type === "failure") {
    freeNames.push(name);
    throw new TypeError(`policies do not parse: ${answer.errors.map(({ message }) => message).join("; ")}`);
  }
  const set = { digest, name, users: 1 };
  inUse.set(digest, set);
  return set;
}

/** Cedar numbers the policies of a text in their order: `policy0`, `policy1` and so on; `@id` is not looked at. */
function positionOf(policyId: string): number {
  return Number(policyId.slice("policy".length));
}
