/**
 * The policy sets of one engine, released together. They are evaluated by compiled code (`compiled-set.ts`), and by
 * Cedar if necessary; Cedar's sets are prepared on first use.
 */
import type { CheckedSet } from "../check/check.ts";
import type { CedarRequest } from "../evaluate/cedar-request.ts";
import { CompiledSet } from "../evaluate/compiled-set.ts";
import {
  type Applying,
  type Counting,
  notEvaluated,
  PreparedSet,
  resultOf,
  type SetResult,
} from "../evaluate/prepared-set.ts";
import { Paths, Scene } from "../evaluate/scene.ts";
import { leftToCedar } from "../evaluate/values.ts";
import { isBrokenEngine } from "../model/cedar.ts";

/**
 * Evaluates layers: one result each, in their order; errors if there is no request. Does not throw.
 *
 * @param isOnBehalfOf whether the question is about another subject than the caller, so that not all permits count
 */
export type EvaluateLayers = (request: CedarRequest | undefined, isOnBehalfOf: boolean) => readonly SetResult[];

export class EngineSets {
  readonly #sets: ReadonlyMap<string, CheckedSet>;
  readonly #isOnCedar: (set: string) => boolean;
  readonly #paths = new Paths();
  readonly #byName = new Map<string, EngineSet>();

  /**
   * @param sets checked sets by their names
   * @param isOnCedar whether only Cedar evaluates a set
   */
  constructor(sets: ReadonlyMap<string, CheckedSet>, isOnCedar: (set: string) => boolean) {
    this.#sets = sets;
    this.#isOnCedar = isOnCedar;
  }

  /** Compiles the layers, given by their sets. */
  layers(names: readonly string[]): EvaluateLayers {
    const sets = names.map((name) => this.#set(name));
    if (names.some(this.#isOnCedar)) {
      for (const set of sets) set.prepare();
      return (request, isOnBehalfOf) => sets.map((set) => set.byCedar(request, isOnBehalfOf));
    }
    for (const set of sets) set.compile();
    return (request, isOnBehalfOf) => {
      if (request === undefined) return sets.map(() => notEvaluated);
      const scene = new Scene(request, this.#paths);
      return sets.map((set) => set.compiled(scene, request, isOnBehalfOf));
    };
  }

  /** Evaluates a set alone, by Cedar. The first call costs more, because Cedar then parses the set. Does not throw. */
  evaluate(set: string, request: CedarRequest | undefined, isOnBehalfOf: boolean): SetResult {
    return this.#set(set).byCedar(request, isOnBehalfOf);
  }

  /** Releases Cedar's sets; no evaluation may follow. Idempotent. */
  release(): void {
    for (const set of this.#byName.values()) set.release();
  }

  #set(name: string): EngineSet {
    const set = this.#byName.get(name) ?? new EngineSet(this.#sets.get(name) ?? noPolicies, this.#paths);
    this.#byName.set(name, set);
    return set;
  }
}

const noPolicies: CheckedSet = { policies: [], index: { unknown: [], steps: [], indices: [] } };

/** One set, compiled and as Cedar has it, each when it is first needed. */
class EngineSet {
  readonly #checked: CheckedSet;
  readonly #paths: Paths;
  #compiled: CompiledSet | undefined;
  #prepared: PreparedSet | undefined;
  /** The policies that only Cedar can evaluate. */
  #unknown: PreparedSet | undefined;

  constructor(checked: CheckedSet, paths: Paths) {
    this.#checked = checked;
    this.#paths = paths;
  }

  compile(): CompiledSet {
    this.#compiled ??= new CompiledSet(this.#checked.policies, this.#checked.index, this.#paths);
    return this.#compiled;
  }

  prepare(): PreparedSet {
    this.#prepared ??= new PreparedSet(this.#checked.policies.map(({ text }) => text));
    return this.#prepared;
  }

  byCedar(request: CedarRequest | undefined, isOnBehalfOf: boolean): SetResult {
    return this.prepare().evaluate(request, this.#counting(isOnBehalfOf));
  }

  compiled(scene: Scene, request: CedarRequest, isOnBehalfOf: boolean): SetResult {
    const set = this.compile();
    try {
      const { unknown, ...applying } = set.applying(scene, request.action.id);
      const counts = this.#counting(isOnBehalfOf);
      if (unknown.length === 0) return resultOf(applying, counts);
      this.#unknown ??= new PreparedSet(set.unknown.map((position) => this.#checked.policies[position]?.text ?? ""));
      const cedar = this.#unknown.diagnose(request);
      if (cedar === undefined) return notEvaluated;
      const both = (of: keyof Applying) => [...applying[of], ...cedar[of].map((at) => set.unknown[at] as number)];
      return resultOf({ permits: both("permits"), forbids: both("forbids"), failed: both("failed") }, counts);
    } catch (error) {
      if (isBrokenEngine(error)) return notEvaluated;
      if (error !== leftToCedar) throw error;
      return this.byCedar(request, isOnBehalfOf);
    }
  }

  release(): void {
    this.#prepared?.release();
    this.#unknown?.release();
  }

  /** Which policies count if not all do: in a question about another subject, those that are written for it. */
  #counting(isOnBehalfOf: boolean): Counting | undefined {
    return isOnBehalfOf ? (position) => this.#checked.policies[position]?.countsOnBehalfOf === true : undefined;
  }
}
