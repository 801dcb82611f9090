/** A policy set of an engine, evaluated by compiled code (`compiled-set.ts`), and by Cedar if necessary. */
import type { CheckedSet } from "../check/check.ts";
import type { CheckedPolicy } from "../check/check-set.ts";
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
import type { Paths, Scene } from "../evaluate/scene.ts";
import { leftToCedar } from "../evaluate/values.ts";
import { isBrokenEngine } from "../model/cedar.ts";
import type { Layer } from "../model/decision.ts";

/** A policy set in the role of a layer. */
export interface LayerSet {
  readonly layer: Layer;
  readonly set: EngineSet;
}

export class EngineSet {
  readonly name: string;
  readonly policies: readonly CheckedPolicy[];
  readonly #compiled: CompiledSet | undefined;
  #prepared: PreparedSet | undefined;
  /** The policies that only Cedar can evaluate. */
  #unknown: PreparedSet | undefined;

  /** @param paths undefined if only Cedar evaluates the set */
  constructor(name: string, { policies, index }: CheckedSet, paths: Paths | undefined) {
    this.name = name;
    this.policies = policies;
    this.#compiled = paths && new CompiledSet(policies, index, paths);
    if (paths === undefined) this.#prepare();
  }

  /**
   * Evaluates the set; an error if there is no scene, because there is no request. Does not throw.
   *
   * @param scene of the paths that the set was compiled with
   * @param isOnBehalfOf whether the question is about another subject than the caller, so that not all permits count
   */
  evaluate(scene: Scene | undefined, isOnBehalfOf: boolean): SetResult {
    if (scene === undefined) return notEvaluated;
    const { request } = scene;
    const set = this.#compiled;
    if (set === undefined) return this.byCedar(request, isOnBehalfOf);
    try {
      const { unknown, ...applying } = set.applying(scene, request.action.id);
      const counts = this.#counting(isOnBehalfOf);
      if (unknown.length === 0) return resultOf(applying, counts);
      this.#unknown ??= new PreparedSet(set.unknown.map((position) => this.policies[position]?.text ?? ""));
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

  /** The first call costs more, because Cedar then parses the set. Does not throw. */
  byCedar(request: CedarRequest | undefined, isOnBehalfOf: boolean): SetResult {
    return this.#prepare().evaluate(request, this.#counting(isOnBehalfOf));
  }

  /** Releases what Cedar has of it; no evaluation may follow. Idempotent. */
  release(): void {
    this.#prepared?.release();
    this.#unknown?.release();
  }

  #prepare(): PreparedSet {
    this.#prepared ??= new PreparedSet(this.policies.map(({ text }) => text));
    return this.#prepared;
  }

  /** Which policies count if not all do: in a question about another subject, those that are written for it. */
  #counting(isOnBehalfOf: boolean): Counting | undefined {
    return isOnBehalfOf ? (position) => this.policies[position]?.countsOnBehalfOf === true : undefined;
  }
}
