/** The policies of both sides that decide about one action of one tenant, and what denies whatever permits there are. */
import { isDeepStrictEqual } from "node:util";
import type { PolicyJson } from "@cedar-policy/cedar-wasm/nodejs";
import type { TenantId } from "../../base/ids.ts";
import { cedar } from "../cedar.ts";
import type { CheckedPolicy } from "../check/check-policy.ts";
import type { Layer, PolicyAction } from "../engine/decision.ts";
import { mergeGuidance } from "../guidance/guidance-merge.ts";
import { queryFor, questionOf, understood, type WrittenQuestion } from "../samples/question.ts";
import { Comparisons } from "../samples/terms.ts";
import { combinedRule, policyRules, rowsOf } from "./rules.ts";
import { layersOf, type Side, type SideLayer } from "./side.ts";
import type { Assignment, Rule } from "./solver.ts";
import { type Value, type Variables, variablesOf } from "./variables.ts";

/** Index of a side: what was, and what is to be. */
export type SideIndex = 0 | 1;

/** A policy on one side, or in the same layer of both. */
export interface ComparedPolicy {
  readonly policy: CheckedPolicy;
  /** `tenant/id of set default`; with what became of it where it is not the same on both sides. */
  readonly name: string;
  readonly layer: Layer;
  readonly sides: ReadonlySet<SideIndex>;
  /** When it applies. */
  readonly rule: Rule;
  /** When it fails, so that everything is denied. */
  readonly fails?: Rule;
}

/** What denies; sides that deny by the same rule do not differ by it. */
export interface Blocker {
  readonly rule: Rule;
  readonly cause: string;
}

interface Seen {
  readonly policy: CheckedPolicy;
  readonly comparisons: Comparisons;
  readonly layer: SideLayer;
  readonly sides: Set<SideIndex>;
}

export class PolicyTables {
  readonly policies: readonly ComparedPolicy[];
  /** Whether nothing that decides differs between the sides. */
  readonly isUnchanged: boolean;
  /** Whether the same guidance follows wherever the same policies apply. */
  readonly isGuidedAlike: boolean;
  /** Number of values of each variable. */
  readonly sizes: readonly number[];
  readonly #sides: readonly [Side, Side];
  readonly #layers: readonly (readonly SideLayer[] | undefined)[];
  readonly #tenant: TenantId;
  readonly #action: PolicyAction;
  readonly #undecided: Set<string>;
  readonly #variables: Variables;
  readonly #combined = new Map<string, Rule | undefined>();

  /** @param undecided is told what the tables do not decide */
  constructor(sides: readonly [Side, Side], tenant: TenantId, action: PolicyAction, undecided: Set<string>) {
    this.#sides = sides;
    this.#tenant = tenant;
    this.#action = action;
    this.#undecided = undecided;
    this.#layers = sides.map((side) => layersOf(side, tenant, action));
    const seen = seenOn(sides, this.#layers);
    this.isGuidedAlike =
      hasSameGuidance(sides) && seen.every((each) => each.sides.size === 2 || !isGuided(each.policy));
    // Where no permit counts for anybody else, every question about somebody else is denied on both sides, and differs
    // at most in its guidance.
    if (!this.isGuidedAlike || seen.some(({ policy }) => policy.effect === "permit" && policy.countsOnBehalfOf)) {
      for (const { policy, comparisons } of seen) if (!policy.countsOnBehalfOf) comparisons.knowOnBehalfOf();
    }
    this.isUnchanged = this.#hasNoChange(seen);
    const asked = new Map([
      ["caller.scopes", seen.flatMap(({ policy }) => policy.guidance.lists.required_scopes ?? [])],
      [understood, seen.flatMap(({ policy }) => obligationIds(policy))],
    ]);
    const compared = this.isUnchanged ? [] : seen.map(({ comparisons }) => comparisons);
    // What guidance follows from besides: the profile that is asked for, and whose key it is.
    if (!this.isGuidedAlike) compared.push(new Comparisons(guidanceInputs(sides), sides[0].catalogue));
    this.#variables = variablesOf(compared, tenant, asked);
    this.sizes = this.#variables.variables.map(({ values }) => values.length);
    for (const reason of this.#variables.inexact) undecided.add(`values of ${reason}`);
    this.policies = this.isUnchanged ? [] : seen.map((each) => this.#tabulate(each, nameOf(each, seen)));
  }

  /** Layers that need a permit; undefined where the tenant has no set on this side. */
  layersOn(side: SideIndex): readonly Layer[] | undefined {
    return this.#layers[side]?.map(({ layer }) => layer);
  }

  permitsOn(side: SideIndex, layer?: Layer): readonly ComparedPolicy[] {
    return this.policies.filter(
      (each) =>
        each.policy.effect === "permit" && each.sides.has(side) && (layer === undefined || each.layer === layer),
    );
  }

  /** Everything that denies on the side whatever permits there are: forbids, failures, missing scopes, conflicts. */
  blockersOn(side: SideIndex): readonly Blocker[] {
    const permits = this.permitsOn(side);
    const own = this.policies.filter(({ sides }) => sides.has(side));
    const { strictness } = this.#sides[side].bundle;
    return [
      ...own.flatMap(({ policy, rule, name }) => (policy.effect === "forbid" ? [{ rule, cause: name }] : [])),
      ...own.flatMap(({ fails, name }) => (fails === undefined ? [] : [{ rule: fails, cause: name }])),
      ...permits.flatMap((permit) => [
        ...this.#missing(permit, "caller.scopes", permit.policy.guidance.lists.required_scopes ?? []),
        ...this.#missing(permit, understood, obligationIds(permit.policy)),
      ]),
      ...permits.flatMap((one, position) =>
        permits
          .slice(position + 1)
          .filter(
            ({ policy }) => mergeGuidance([one.policy.guidance, policy.guidance], strictness).conflicts.length > 0,
          )
          .flatMap((other) => this.#conflict(one, other)),
      ),
    ];
  }

  /** What holds of every request: a label that is registered was registered once. */
  get always(): readonly Rule[] {
    const { variables } = this.#variables;
    return variables.flatMap(({ term, member }, index): readonly Rule[] => {
      if (term !== "registered.labels" || member === undefined) return [];
      const [ever] = this.#variables.members("registered.labels_ever", [member]);
      const all = rowsOf([2, 2]).rows;
      const isGood = ([now, once]: readonly number[]) => now === 0 || once === 1;
      return ever === undefined ? [] : [{ variables: [index, ever], applies: all.filter(isGood), otherwise: [] }];
    });
  }

  /** A rule for every combination of what guidance follows from besides policies. */
  guidanceCases(): readonly Rule[] {
    const variables = ["artifact_profile", "key_reference"].flatMap((term) => this.#variables.scalars(term));
    const { rows } = rowsOf(variables.map((variable) => this.sizes[variable] ?? 0));
    return rows.map((row) => ({ variables, applies: [row], otherwise: [] }));
  }

  /** The question that an assignment asks. */
  questionOf(assignment: Assignment): WrittenQuestion {
    const { variables } = this.#variables;
    const values = new Map<number, Value>(
      [...assignment].map(([variable, value]) => [variable, variables[variable]?.values[value]]),
    );
    return questionOf(variables, values, this.#tenant, this.#action);
  }

  #hasNoChange(seen: readonly Seen[]): boolean {
    return (
      seen.every(({ sides }) => sides.size === 2) &&
      (this.#layers[0] === undefined) === (this.#layers[1] === undefined) &&
      hasSameGuidance(this.#sides)
    );
  }

  #tabulate({ policy, comparisons, layer, sides }: Seen, name: string): ComparedPolicy {
    const [index = 0] = sides;
    const side = this.#sides[index];
    const indices = this.#variables.of(comparisons);
    const { applies, fails, problem } = policyRules(
      policy,
      indices,
      this.#variables.variables,
      side,
      comparisons.inexact.size === 0,
      (variables, row) =>
        queryFor(
          side.bundle,
          this.questionOf(new Map(variables.map((variable, position) => [variable, row[position] ?? 0]))),
        ),
    );
    if (problem !== undefined) this.#undecided.add(`${name}: ${problem}`);
    const parameters = (policy.guidance.obligations ?? []).flatMap((obligation) =>
      Object.values(obligation.parameters),
    );
    if (sides.size < 2 && parameters.some((parameter) => "input" in parameter)) {
      this.#undecided.add(`${name}: obligations that take values of the request`);
    }
    return { policy, name, layer: layer.layer, sides, rule: applies, ...(fails !== undefined && { fails }) };
  }

  /** What an allow asks of the caller after all policies. */
  #missing(permit: ComparedPolicy, term: string, asked: readonly string[]): readonly Blocker[] {
    if (asked.length === 0) return [];
    const members = this.#variables.members(term, asked);
    const isMissing = ([applies]: readonly boolean[], valueAt: (variable: number) => number) =>
      applies === true && members.some((member) => valueAt(member) === 0);
    const rule = this.#combine(term, [permit], members, isMissing);
    return rule === undefined ? [] : [{ rule, cause: permit.name }];
  }

  #conflict(one: ComparedPolicy, other: ComparedPolicy): readonly Blocker[] {
    const rule = this.#combine("conflict", [one, other], [], (applying) => applying.every(Boolean));
    const changed = [one, other].find(({ sides }) => sides.size < 2);
    return rule === undefined ? [] : [{ rule, cause: changed?.name ?? "strictness of the manifest" }];
  }

  /** Made once: sides that have the same are to have the same rule. */
  #combine(
    kind: string,
    policies: readonly ComparedPolicy[],
    extra: readonly number[],
    holds: Parameters<typeof combinedRule>[3],
  ): Rule | undefined {
    const key = [kind, ...policies.map((each) => this.policies.indexOf(each))].join(" ");
    if (!this.#combined.has(key)) {
      const rules = policies.map(({ rule }) => rule);
      this.#combined.set(key, combinedRule(rules, extra, this.#variables.variables, holds));
    }
    const rule = this.#combined.get(key);
    if (rule === undefined) {
      this.#undecided.add(`${policies.map(({ name }) => name).join(" with ")}: too many combinations of values`);
    }
    return rule;
  }
}

/** Whether both manifests say the same of guidance. */
export function hasSameGuidance(sides: readonly [Side, Side]): boolean {
  const [old, next] = sides.map(({ bundle }) => [bundle.guidance, bundle.strictness]);
  return isDeepStrictEqual(old, next);
}

/** Names under which the policy guides. */
export function guidanceNames({ guidance: { scalars, lists, obligations } }: CheckedPolicy): readonly string[] {
  return [...Object.keys(scalars), ...Object.keys(lists), ...(obligations === undefined ? [] : ["obligations"])];
}

export function isGuided(policy: CheckedPolicy): boolean {
  return guidanceNames(policy).length > 0;
}

function obligationIds({ effect, guidance }: CheckedPolicy): readonly string[] {
  return effect === "forbid" ? [] : (guidance.obligations ?? []).map(({ id }) => id);
}

/** As conditions of a policy, so that the values are found that tell them apart. */
function guidanceInputs(sides: readonly [Side, Side]): PolicyJson {
  const patterns = sides.flatMap(({ bundle }) => bundle.keyReferences.map(({ pattern }) => JSON.stringify(pattern)));
  const key = "context.claimed.key_reference";
  const matches = ["true", ...patterns.map((pattern) => `${key} like ${pattern}`)].join(" || ");
  const parsed = cedar().policyToJson(
    `permit (principal, action, resource)
     when { context.claimed has artifact_profile && context.claimed has key_reference && (${matches}) };`,
  );
  if (parsed.type === "failure") throw new TypeError("a pattern of key references is a pattern");
  return parsed.json;
}

function nameOf({ policy, layer, sides }: Seen, all: readonly Seen[]): string {
  const name = `${layer.layer}/${policy.id} of set ${layer.set}`;
  if (sides.size === 2) return name;
  const isChanged = all.some(
    (other) =>
      other.policy.id === policy.id && other.layer.layer === layer.layer && !isDeepStrictEqual(other.sides, sides),
  );
  if (sides.has(0)) return isChanged ? `${name}, as it was` : `${name}, which is gone`;
  return isChanged ? `${name}, as it is now` : `${name}, which is new`;
}

/**
 * Policies by text and layer. Where callers have other attributes, or the organisation knows something else that the
 * policy uses, the same text says something else.
 */
function seenOn(sides: readonly [Side, Side], layers: readonly (readonly SideLayer[] | undefined)[]): readonly Seen[] {
  const [old, next] = sides.map(({ bundle }) => bundle.callerAttributes ?? {});
  const isAlike = isDeepStrictEqual(old, next);
  const [knew, knows] = sides.map(({ bundle }) => bundle.entities);
  const isKnownAlike = isDeepStrictEqual(knew, knows);
  const usesNone = ({ entities: { references, roots } }: CheckedPolicy) => references.length + roots.length === 0;
  const seen = new Map<string, Seen>();
  for (const index of [0, 1] as const) {
    for (const layer of layers[index] ?? []) {
      for (const policy of layer.policies) {
        const isSame = isAlike && (isKnownAlike || usesNone(policy));
        const key = [layer.layer, isSame ? "" : index, policy.text].join(" ");
        const known = seen.get(key);
        if (known !== undefined) known.sides.add(index);
        else
          seen.set(key, { policy, comparisons: comparisonsOf(policy, sides[index]), layer, sides: new Set([index]) });
      }
    }
  }
  return [...seen.values()];
}

export function comparisonsOf({ text }: CheckedPolicy, { catalogue, known }: Side): Comparisons {
  const parsed = cedar().policyToJson(text);
  if (parsed.type === "failure") throw new TypeError("a checked policy parses");
  return new Comparisons(parsed.json, catalogue, known);
}
