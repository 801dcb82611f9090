/** A policy set with compiled evaluation: indexed, each policy compiled on first use. */
import { parseJson } from "../../base/json.ts";
import type { PolicyAction } from "../model/decision.ts";
import { demandsOf } from "./demands.ts";
import { compileCondition } from "./expression.ts";
import { findCandidates, type IndexedPolicy, type IndexPlace, indexOf, type PolicyIndex } from "./policy-index.ts";
import type { Applying } from "./prepared-set.ts";
import type { Expression, Program } from "./program.ts";
import { Paths, type Scene, type Step } from "./scene.ts";
import { evaluationFailed } from "./values.ts";

export interface CompilablePolicy {
  /** JSON of its `Program`. */
  readonly program: string;
  /** Actions that its scope admits. */
  readonly actions: ReadonlySet<PolicyAction>;
}

/** What applies, and the positions of policies that may apply and that only Cedar can evaluate. */
export interface PartlyApplying extends Applying {
  readonly unknown: readonly number[];
}

interface Runnable {
  readonly forbids: boolean;
  /** Undefined if only Cedar can evaluate it. */
  readonly conditions: readonly SharedCondition[] | undefined;
}

/** A condition shared by policies: evaluated once per request. */
class SharedCondition {
  readonly #holds: (scene: Scene) => boolean;
  #evaluation = 0;
  #was: boolean | undefined;

  constructor(holds: (scene: Scene) => boolean) {
    this.#holds = holds;
  }

  /** Whether it holds; undefined if it fails. */
  in(scene: Scene, evaluation: number): boolean | undefined {
    if (this.#evaluation === evaluation) return this.#was;
    try {
      this.#was = this.#holds(scene);
    } catch (error) {
      if (error !== evaluationFailed) throw error;
      this.#was = undefined;
    }
    this.#evaluation = evaluation;
    return this.#was;
  }
}

/** Precomputed data of a set, which another thread may have produced. */
export interface SetIndex {
  /** Positions of the policies that only Cedar can evaluate. */
  readonly unknown: readonly number[];
  /** Paths that its indices name by their numbers. */
  readonly steps: readonly (Step | undefined)[];
  /** One index for the policies whose scopes admit the same actions. */
  readonly indices: readonly { readonly actions: ReadonlySet<string>; readonly index: PolicyIndex }[];
}

/** Indexes the policies of a set: about 20 µs each. */
export function setIndexOf(policies: readonly CompilablePolicy[]): SetIndex {
  const paths = new Paths();
  const unknown: number[] = [];
  const byActions = new Map<string, IndexedPolicy[]>();
  for (const [position, { program, actions }] of policies.entries()) {
    const { scope, conditions, isKnown } = parseJson(program) as Program;
    if (!isKnown) unknown.push(position);
    const alike = [...actions].sort().join(" ");
    const indexed = byActions.get(alike) ?? [];
    byActions.set(alike, indexed);
    indexed.push({ position, ...demandsOf([...scope, ...conditions], paths) });
  }
  const indices = Array.from(byActions, ([actions, indexed]) => {
    return { actions: new Set(actions.split(" ")), index: indexOf(indexed) };
  });
  return { unknown, steps: paths.steps, indices };
}

export class CompiledSet {
  /** Positions of the policies that only Cedar can evaluate. */
  readonly unknown: readonly number[];
  readonly #policies: readonly CompilablePolicy[];
  readonly #indices: SetIndex["indices"];
  readonly #place: IndexPlace;
  readonly #runnable: (Runnable | undefined)[] = [];
  /** By their JSON. */
  readonly #conditions = new Map<string, SharedCondition>();
  /** When each policy was last examined. */
  readonly #seen: Float64Array;
  #evaluation = 0;

  /** @param paths of the scenes to evaluate */
  constructor(policies: readonly CompilablePolicy[], { unknown, steps, indices }: SetIndex, paths: Paths) {
    this.unknown = unknown;
    this.#policies = policies;
    this.#indices = indices;
    this.#place = { paths, slots: paths.adopt(steps) };
    this.#seen = new Float64Array(policies.length);
  }

  /** Evaluates the policies that the action and the request can meet. Throws `leftToCedar` if Cedar is needed. */
  applying(scene: Scene, action: string): PartlyApplying {
    const applying = {
      permits: [] as number[],
      forbids: [] as number[],
      failed: [] as number[],
      unknown: [] as number[],
    };
    const evaluation = ++this.#evaluation;
    const take = (positions: readonly number[]) => {
      for (const position of positions) {
        if (this.#seen[position] === evaluation) continue;
        this.#seen[position] = evaluation;
        this.#apply(position, scene, evaluation, applying);
      }
    };
    for (const { actions, index } of this.#indices) {
      if (actions.has(action)) findCandidates(index, this.#place, scene, take);
    }
    return applying;
  }

  #apply(
    position: number,
    scene: Scene,
    evaluation: number,
    applying: { [Of in keyof PartlyApplying]: number[] },
  ): void {
    const { forbids, conditions } = this.#compiled(position);
    if (conditions === undefined) {
      applying.unknown.push(position);
      return;
    }
    for (const condition of conditions) {
      const holds = condition.in(scene, evaluation);
      if (holds) continue;
      if (holds === undefined) applying.failed.push(position);
      return;
    }
    (forbids ? applying.forbids : applying.permits).push(position);
  }

  #compiled(position: number): Runnable {
    const known = this.#runnable[position];
    if (known !== undefined) return known;
    const { program } = this.#policies[position] as CompilablePolicy;
    const { forbids, scope, conditions, isKnown } = parseJson(program) as Program;
    const all = [...scope, ...conditions];
    const compiled = isKnown ? all.map((condition) => this.#condition(condition)) : undefined;
    const runnable: Runnable = { forbids, conditions: compiled };
    this.#runnable[position] = runnable;
    return runnable;
  }

  #condition(expression: Expression): SharedCondition {
    const text = JSON.stringify(expression);
    const shared = this.#conditions.get(text) ?? new SharedCondition(compileCondition(expression, this.#place.paths));
    this.#conditions.set(text, shared);
    return shared;
  }
}
