/** A policy set of an engine, evaluated by compiled code (`compiled-set.ts`), and by Cedar if necessary. */
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
import { type Paths, Scene } from "../evaluate/scene.ts";
import { leftToCedar } from "../evaluate/values.ts";
import { isBrokenEngine } from "../model/cedar.ts";

/**
 * Evaluates layers: one result each, in their order; errors if there is no request. Does not throw.
 *
 * @param isOnBehalfOf whether the question is about another subject than the caller, so that not all permits count
 */
export type EvaluateLayers = (request: CedarRequest | undefined, isOnBehalfOf: boolean) => readonly SetResult[];

/** Evaluates the layers' sets, which are compiled with the paths. */
export function layersEvaluator(sets: readonly EngineSet[], paths: Paths): EvaluateLayers {
  return (request, isOnBehalfOf) => {
    if (request === undefined) return sets.map(() => notEvaluated);
    const scene = new Scene(request, paths);
    return sets.map((set) => set.evaluate(request, scene, isOnBehalfOf));
  };
}

export class EngineSet {
  readonly #checked: CheckedSet;
  readonly #compiled: CompiledSet | undefined;
  #prepared: PreparedSet | undefined;
  /** The policies that only Cedar can evaluate. */
  #unknown: PreparedSet | undefined;

  /** @param paths undefined if only Cedar evaluates the set */
  constructor(checked: CheckedSet, paths: Paths | undefined) {
    this.#checked = checked;
    this.#compiled = paths && new CompiledSet(checked.policies, checked.index, paths);
    if (paths === undefined) this.#prepare();
  }

  evaluate(request: CedarRequest, scene: Scene, isOnBehalfOf: boolean): SetResult {
    const set = this.#compiled;
    if (set === undefined) return this.byCedar(request, isOnBehalfOf);
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
    this.#prepared ??= new PreparedSet(this.#checked.policies.map(({ text }) => text));
    return this.#prepared;
  }

  /** Which policies count if not all do: in a question about another subject, those that are written for it. */
  #counting(isOnBehalfOf: boolean): Counting | undefined {
    return isOnBehalfOf ? (position) => this.#checked.policies[position]?.countsOnBehalfOf === true : undefined;
  }
}
