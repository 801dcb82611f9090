/** Compares how two bundles decide about one action of one tenant. */
import { isDeepStrictEqual } from "node:util";
import type { TenantId } from "../../base/ids.ts";
import type { PolicyAction, PolicyDecision } from "../engine/decision.ts";
import { type DecisionDifference, differenceOf } from "../engine/difference.ts";
import { mergeGuidance } from "../guidance/guidance-merge.ts";
import { askable, queryFor, type WrittenQuestion } from "../samples/question.ts";
import {
  type Blocker,
  type ComparedPolicy,
  guidanceNames,
  hasSameGuidance,
  isGuided,
  PolicyTables,
  type SideIndex,
} from "./policy-tables.ts";
import type { Side } from "./side.ts";
import { type Assignment, type Budget, solve, type Wanted } from "./solver.ts";

/** A request that is decided differently. */
export interface Found {
  readonly difference: DecisionDifference;
  /** What was changed, so that it is: a policy by layer, id and set, or something of the manifest. */
  readonly cause: string;
  readonly example: WrittenQuestion;
  /** Inputs of the example that are not those of a request that no policy speaks of. */
  readonly size: number;
  readonly before: PolicyDecision;
  readonly after: PolicyDecision;
}

export interface ActionComparison {
  /** One for each kind of difference and each cause. */
  readonly found: readonly Found[];
  /** What the search could not decide. */
  readonly undecided: readonly string[];
}

/** Combinations of policies with guidance that are looked at. */
const maxGuided = 256;

export function compareAction(
  sides: readonly [Side, Side],
  tenant: TenantId,
  action: PolicyAction,
  budget: Budget,
): ActionComparison {
  const undecided = new Set<string>();
  const tables = new PolicyTables(sides, tenant, action, undecided);
  if (tables.isUnchanged) return { found: [], undecided: [] };
  const search = new ActionSearch(sides, tables, budget, undecided);
  search.allowedBy(0);
  search.allowedBy(1);
  search.guidedOtherwise();
  return { found: [...search.found.values()], undecided: [...undecided] };
}

class ActionSearch {
  readonly found = new Map<string, Found>();
  readonly #sides: readonly [Side, Side];
  readonly #tables: PolicyTables;
  readonly #blockers: readonly [readonly Blocker[], readonly Blocker[]];
  readonly #budget: Budget;
  readonly #undecided: Set<string>;

  constructor(sides: readonly [Side, Side], tables: PolicyTables, budget: Budget, undecided: Set<string>) {
    this.#sides = sides;
    this.#tables = tables;
    this.#blockers = [tables.blockersOn(0), tables.blockersOn(1)];
    this.#budget = budget;
    this.#undecided = undecided;
  }

  /** Looks for what the side allows and the other denies. */
  allowedBy(side: SideIndex): void {
    const other = side === 0 ? 1 : 0;
    const allowed = this.#allows(side);
    if (allowed === undefined) return;
    const layers = this.#tables.layersOn(other);
    if (layers === undefined) this.#look(allowed, "tenants of the manifest");
    const common = new Set(this.#blockers[side].map(({ rule }) => rule));
    for (const { rule, cause } of this.#blockers[other]) {
      if (!common.has(rule)) this.#look({ ...allowed, must: [rule] }, cause);
    }
    for (const layer of layers ?? []) {
      const mustNot = [...allowed.mustNot, ...this.#tables.permitsOn(other, layer).map(({ rule }) => rule)];
      for (const { rule, name, sides } of this.#tables.permitsOn(side, layer)) {
        if (!sides.has(other)) this.#look({ ...allowed, must: [rule], mustNot }, name);
      }
    }
  }

  /** Looks for other guidance. Only what is said under the same names can be merged to something else. */
  guidedOtherwise(): void {
    if (this.#tables.isGuidedAlike) return;
    const isOther = !hasSameGuidance(this.#sides);
    const guided = this.#tables.policies.filter(({ policy }) => isGuided(policy));
    const names = new Set(guided.filter(isChanged).flatMap(({ policy }) => guidanceNames(policy)));
    const relevant = guided.filter(({ policy }) => isOther || guidanceNames(policy).some((name) => names.has(name)));
    let combinations = 0;
    const visit = (position: number, must: readonly ComparedPolicy[], mustNot: readonly ComparedPolicy[]): void => {
      if (combinations >= maxGuided) return;
      const wanted = { must: must.map(ruleOf), mustNot: mustNot.map(ruleOf), anyOf: [] };
      if (this.#solve(wanted) === "none") return;
      const policy = relevant[position];
      if (policy === undefined) {
        combinations += 1;
        this.#lookAtGuidance(must, wanted);
      } else {
        visit(position + 1, must, [...mustNot, policy]);
        visit(position + 1, [...must, policy], mustNot);
      }
    };
    visit(0, [], []);
    if (combinations >= maxGuided) this.#undecided.add(`guidance of ${relevant.length} policies together`);
  }

  /** Allowed by both sides, and however else these policies apply. */
  #lookAtGuidance(must: readonly ComparedPolicy[], wanted: Wanted): void {
    const [old, next] = this.#sides.map(({ bundle }, side) => {
      const guidance = must.filter(({ sides }) => sides.has(side as SideIndex)).map(({ policy }) => policy.guidance);
      const obligations = guidance.flatMap((each) => each.obligations ?? []).map((each) => JSON.stringify(each));
      return [mergeGuidance(guidance, bundle.strictness), [...new Set(obligations)].sort(), bundle.guidance];
    });
    if (isDeepStrictEqual(old, next)) return;
    const cause = must.findLast(isChanged)?.name ?? "guidance of the manifest";
    const both = [this.#allows(0), this.#allows(1)].filter((allowed) => allowed !== undefined);
    const allowed: Wanted = {
      must: wanted.must,
      mustNot: [...wanted.mustNot, ...both.flatMap(({ mustNot }) => mustNot)],
      anyOf: both.flatMap(({ anyOf }) => anyOf),
    };
    const canAllow = both.length === 2 && must.every(({ policy }) => policy.effect === "permit");
    for (const each of [
      ...(canAllow ? [allowed] : []),
      wanted,
      ...this.#denied(0, wanted),
      ...this.#denied(1, wanted),
    ]) {
      // The same may follow in one case and not in another.
      this.#tables.guidanceCases().some((rule) => this.#look({ ...each, must: [...each.must, rule] }, cause, true));
    }
  }

  /** What is wanted so that the side denies, in each way in which it may: what denies anyway may be told otherwise. */
  #denied(side: SideIndex, wanted: Wanted): readonly Wanted[] {
    const layers = this.#tables.layersOn(side) ?? [];
    return [
      ...this.#blockers[side].map(({ rule }) => ({ ...wanted, must: [...wanted.must, rule] })),
      ...layers.map((layer) => ({
        ...wanted,
        mustNot: [...wanted.mustNot, ...this.#tables.permitsOn(side, layer).map(ruleOf)],
      })),
    ];
  }

  /** What is wanted so that the side allows; undefined where it allows nothing. */
  #allows(side: SideIndex): Wanted | undefined {
    const layers = this.#tables.layersOn(side);
    return (
      layers && {
        must: [],
        mustNot: this.#blockers[side].map(({ rule }) => rule),
        anyOf: layers.map((layer) => this.#tables.permitsOn(side, layer).map(ruleOf)),
      }
    );
  }

  #solve(wanted: Wanted): ReturnType<typeof solve> {
    const must = [...wanted.must, ...this.#tables.always];
    return solve(this.#tables.sizes, { ...wanted, must }, this.#budget);
  }

  /**
   * Whether a difference was found.
   *
   * @param mayAgree whether the decisions may come to the same
   */
  #look(wanted: Wanted, cause: string, mayAgree = false): boolean {
    const assignment = this.#solve(wanted);
    if (assignment === "unknown") this.#undecided.add(`${cause}: the search was broken off`);
    if (typeof assignment === "string") return false;
    const found = this.#ask(assignment, cause);
    if (found === undefined) {
      if (!mayAgree) this.#undecided.add(`${cause}: a difference that no request shows`);
      return false;
    }
    const smallest = this.#shrink(found, assignment);
    const key = `${smallest.difference.kind} ${cause}`;
    const known = this.found.get(key);
    if (known === undefined || smallest.size < known.size) this.found.set(key, smallest);
    return true;
  }

  /** Asks both sides; undefined where they decide alike, or no request asks it. */
  #ask(assignment: Assignment, cause: string): Found | undefined {
    const question = this.#tables.questionOf(assignment);
    const example = askable(
      this.#sides.map(({ bundle }) => bundle),
      question,
    );
    const [before, after] = this.#sides.map((side) => {
      const query = queryFor(side.bundle, question);
      return query && side.engine.decide(query);
    });
    const difference = before && after && differenceOf(before, after);
    if (difference === undefined || difference.kind === "reasons") return undefined;
    const size = [...assignment.values()].filter((value) => value !== 0).length;
    return { difference, cause, example, size, before, after } as Found;
  }

  /** Leaves out of the example what makes no difference to the difference. */
  #shrink(found: Found, assignment: Assignment): Found {
    let smallest = found;
    let kept = new Map(assignment);
    for (const [variable, value] of assignment) {
      if (value === 0) continue;
      const less = new Map([...kept, [variable, 0] as const]);
      const still = this.#ask(less, found.cause);
      if (still === undefined || !isDeepStrictEqual(outcomeOf(still), outcomeOf(found))) continue;
      smallest = still;
      kept = less;
    }
    return smallest;
  }
}

function outcomeOf({ difference, before, after }: Found) {
  return [difference, before.reasons, after.reasons];
}

function ruleOf({ rule }: ComparedPolicy) {
  return rule;
}

function isChanged({ sides }: ComparedPolicy): boolean {
  return sides.size < 2;
}
