/**
 * The policy sets of one engine, released together. They are evaluated by compiled code (`compiled-set.ts`), and by
 * Cedar if necessary; Cedar's sets are prepared on first use.
 */
import type { CheckedSet } from "../check/check.ts";
import type { CheckedPolicy } from "../check/check-set.ts";
import type { CedarRequest } from "../evaluate/cedar-request.ts";
import { CompiledSet, resultOf } from "../evaluate/compiled-set.ts";
import { type Counting, everyPolicy, PreparedSet, type SetResult } from "../evaluate/prepared-set.ts";
import { Paths, Scene } from "../evaluate/scene.ts";
import { leftToCedar } from "../evaluate/values.ts";
import { isBrokenEngine } from "../model/cedar.ts";

/**
 * Evaluates layers: one result each, in their order; errors if there is no request. Does not throw.
 *
 * @param isOnBehalfOf whether the question is about another subject than the caller, so that not all permits count
 */
export type EvaluateLayers = (request: CedarRequest | undefined, isOnBehalfOf: boolean) => readonly SetResult[];

/** Evaluator: the compiled policies; Cedar alone; or both, in which case Cedar's answer counts. */
export type Evaluator = "compiled" | "cedar" | "both";

interface EngineSetsOptions {
  readonly evaluator: Evaluator;
  /** Names of sets that only Cedar evaluates, because the compiled policies were found to differ from it. */
  readonly onCedar: ReadonlySet<string>;
  /** Called if both were evaluated and differ. */
  readonly onDisagreement: (disagreement: string) => void;
}

export class EngineSets {
  readonly #sets: ReadonlyMap<string, CheckedSet>;
  readonly #options: EngineSetsOptions;
  readonly #paths = new Paths();
  /** By name of the set. Sets with the same text share one. */
  readonly #compiled = new Map<string, CompiledSet>();
  readonly #byText = new Map<string, CompiledSet>();
  readonly #alone = new Map<string, PreparedSet>();
  /** Policies of a set that only Cedar can evaluate. */
  readonly #unknown = new Map<string, PreparedSet>();
  #released = false;

  /** Checked sets by their names. */
  constructor(sets: ReadonlyMap<string, CheckedSet>, options: EngineSetsOptions) {
    this.#sets = sets;
    this.#options = options;
  }

  /** Compiles the layers, given by their sets. */
  layers(names: readonly string[]): EvaluateLayers {
    const { evaluator, onCedar, onDisagreement } = this.#options;
    const byCedar: EvaluateLayers = (request, isOnBehalfOf) =>
      names.map((name) => this.evaluate(name, request, isOnBehalfOf));
    if (evaluator === "cedar" || names.some((name) => onCedar.has(name))) {
      for (const name of names) this.#prepared(name);
      return byCedar;
    }
    const sets = names.map((name) => [name, this.#compile(name)] as const);
    const compiled: EvaluateLayers = (request, isOnBehalfOf) => {
      if (request === undefined || this.#released) return byCedar(request, isOnBehalfOf);
      const scene = new Scene(request, this.#paths);
      return sets.map(([name, set]) => this.#evaluateCompiled(name, set, scene, request, isOnBehalfOf));
    };
    if (evaluator === "compiled") return compiled;
    return (request, isOnBehalfOf) => {
      const cedar = byCedar(request, isOnBehalfOf);
      const ours = compiled(request, isOnBehalfOf);
      for (const [layer, name] of names.entries()) {
        const policies = this.#policiesOf(name);
        const [one, other] = [described(cedar[layer], policies), described(ours[layer], policies)];
        if (one !== other) onDisagreement(`of the set ${name}, Cedar says ${one}; compiled: ${other}`);
      }
      return cedar;
    };
  }

  /** Evaluates a set alone, by Cedar. The first call costs more, because Cedar then parses the set. Does not throw. */
  evaluate(set: string, request: CedarRequest | undefined, isOnBehalfOf: boolean): SetResult {
    if (this.#released) return notEvaluated;
    return this.#prepared(set).evaluate(request, counting(this.#policiesOf(set), isOnBehalfOf));
  }

  /** Later evaluations are errors. Idempotent. */
  release(): void {
    this.#released = true;
    for (const prepared of [...this.#alone.values(), ...this.#unknown.values()]) prepared.release();
  }

  #compile(name: string): CompiledSet {
    const known = this.#compiled.get(name);
    if (known !== undefined) return known;
    const { policies, index } = this.#sets.get(name) ?? noPolicies;
    const text = JSON.stringify(textsOf(policies));
    const set = this.#byText.get(text) ?? new CompiledSet(policies, index, this.#paths);
    this.#byText.set(text, set);
    this.#compiled.set(name, set);
    return set;
  }

  #evaluateCompiled(
    name: string,
    set: CompiledSet,
    scene: Scene,
    request: CedarRequest,
    isOnBehalfOf: boolean,
  ): SetResult {
    const counts = counting(this.#policiesOf(name), isOnBehalfOf);
    try {
      const { permits, forbids, failed, unknown } = set.applying(scene, request.action.id);
      if (unknown.length === 0) return resultOf({ permits, forbids, failed }, counts);
      const cedar = this.#unknownPrepared(name, set).diagnose(request);
      if (cedar === undefined) return notEvaluated;
      const positions = (of: readonly number[]) => of.map((position) => set.unknown[position] as number);
      // If Cedar denies it does not name the permits that apply, which do not matter then.
      return resultOf(
        {
          permits: [...permits, ...(cedar.allows ? positions(cedar.reasons) : [])],
          forbids: [...forbids, ...(cedar.allows ? [] : positions(cedar.reasons))],
          failed: [...failed, ...positions(cedar.failed)],
        },
        counts,
      );
    } catch (error) {
      if (isBrokenEngine(error)) return notEvaluated;
      if (error !== leftToCedar) throw error;
      return this.evaluate(name, request, isOnBehalfOf);
    }
  }

  #unknownPrepared(name: string, { unknown }: CompiledSet): PreparedSet {
    const policies = this.#policiesOf(name);
    const prepared =
      this.#unknown.get(name) ?? new PreparedSet(unknown.map((position) => policies[position]?.text ?? ""));
    this.#unknown.set(name, prepared);
    return prepared;
  }

  #policiesOf(set: string): readonly CheckedPolicy[] {
    return (this.#sets.get(set) ?? noPolicies).policies;
  }

  #prepared(set: string): PreparedSet {
    const prepared = this.#alone.get(set) ?? new PreparedSet(textsOf(this.#policiesOf(set)));
    this.#alone.set(set, prepared);
    return prepared;
  }
}

const noPolicies: CheckedSet = { policies: [], index: { unknown: [], steps: [], indices: [] } };
const notEvaluated: SetResult = { outcome: "error", policies: [] };

function textsOf(policies: readonly CheckedPolicy[]): readonly string[] {
  return policies.map(({ text }) => text);
}

/** The policies that count: all, or, for a question about another subject, those written for it. */
function counting(policies: readonly CheckedPolicy[], isOnBehalfOf: boolean): Counting {
  return isOnBehalfOf ? (position) => policies[position]?.countsOnBehalfOf === true : everyPolicy;
}

function described(result: SetResult | undefined, policies: readonly CheckedPolicy[]): string {
  const ids = (result?.policies ?? []).map((position) => policies[position]?.id);
  return `${result?.outcome} by ${ids.sort().join(", ") || "no policy"}`;
}
