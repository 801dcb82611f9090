/**
 * Proves of two bundles that they decide every request alike, or finds a request that they do not, with Cedar's own
 * symbolic compiler and a solver behind it. Both are outside of this project: where they are missing, nothing is proven.
 *
 * What is proven holds whatever entities there are; a counterexample may therefore be of entities that the directories do
 * not have, and counts only where the bundles, with their own entities, do decide its question differently.
 */
import { isDeepStrictEqual } from "node:util";
import type { TenantId } from "../../base/ids.ts";
import { cedar } from "../cedar.ts";
import { checkBundle } from "../check/check.ts";
import { type PolicyChange, unnamedTenant } from "../diff/compare.ts";
import { comparisonsOf, hasSameGuidance } from "../diff/policy-tables.ts";
import { layersOf, type Side, sideOf } from "../diff/side.ts";
import type { PolicyAction } from "../engine/decision.ts";
import { differenceOf } from "../engine/difference.ts";
import { policyActions } from "../engine/schema.ts";
import type { PolicyBundle } from "../load/bundle.ts";
import { otherTenants } from "../load/manifest.ts";
import { askable, queryFor, type WrittenQuestion } from "../samples/question.ts";
import { questionIn, simplified } from "./counterexample.ts";
import { type RequestDomain, requestDomain } from "./request-domain.ts";
import { type StatementPair, statementPairs } from "./statements.ts";
import type { Counterexample, ProverOutcome, ProverQuestion, ProverRequest } from "./wire.ts";

/** Asks the prover: undecided is whatever it does not answer. Does not reject. */
export type AskProver = (request: ProverRequest) => Promise<ProverOutcome>;

export interface Proof {
  /** What the solver calls itself. */
  readonly solver: string;
  /** Statements that were proven, and all of them; those that hold by their form alone are among both. */
  readonly proven: number;
  readonly statements: number;
  /** Requests that are decided differently: each was put to both bundles. */
  readonly found: readonly PolicyChange[];
  /** What is neither proven nor refuted. Sorted. */
  readonly undecided: readonly string[];
}

/** A proof, or what is missing for one and how to get it, in one line. */
export type ProofOutcome = Proof | { readonly missing: string };

/** Of tenants that have the same pair of sets. */
interface TenantGroup {
  /** One that stands for all. */
  readonly tenant: TenantId;
  readonly names: readonly string[];
  readonly domain: RequestDomain["tenants"];
}

interface Asked {
  readonly group: TenantGroup;
  readonly action: PolicyAction;
  readonly about: StatementPair["about"];
  readonly isOnBehalfOf: boolean;
  readonly question: ProverQuestion;
}

/**
 * Takes bundles that have no problems. Throws a TypeError for others.
 *
 * @param timeoutMs how long the solver may look at one statement
 */
export async function proveEqual(
  old: PolicyBundle,
  next: PolicyBundle,
  timeoutMs: number,
  askProver: AskProver,
): Promise<ProofOutcome> {
  const sides = [sideOf(old, new Map(), "cedar"), sideOf(next, new Map(), "cedar")] as const;
  try {
    const { policies, asked, statements, tooLarge } = old.schema === next.schema ? questionsOf(sides) : nothing;
    const undecided = new Set([...outsideOfProof(sides), ...tooLarge.map((each) => `${described(each)}: ${beyond}`)]);
    const questions = asked.map(({ question }) => question);
    const outcome = await askProver({ schema: old.schema, policies, timeout_ms: timeoutMs, questions });
    if (outcome.missing !== undefined) return outcome;
    const found = new Map<string, PolicyChange>();
    let proven = statements - asked.length - tooLarge.length;
    for (const [index, answer] of outcome.answers.entries()) {
      const each = asked[index] as Asked;
      if ("equal" in answer) proven += 1;
      else if ("undecided" in answer) undecided.add(`${described(each)}: ${answer.undecided}`);
      else if (!confirm(sides, each, answer.counterexample, found)) undecided.add(`${described(each)}: ${unconfirmed}`);
    }
    return { solver: outcome.solver, proven, statements, found: [...found.values()], undecided: [...undecided].sort() };
  } finally {
    for (const { engine } of sides) engine.release();
  }
}

const nothing = { policies: [], asked: [], statements: 0, tooLarge: [] };
/** Policies that all statements together name, one for each time; each takes some tens of bytes, here and in the prover. */
const maxNamed = 2_000_000;
const beyond = "too many policies with too many kinds of guidance";
const unconfirmed = "the solver's counterexample is none with the entities and requests that there are";

/** What makes decisions differ that no statement is about, and what statements would be wrong about. */
function outsideOfProof(sides: readonly [Side, Side]): readonly string[] {
  const [old, next] = sides.map(({ bundle }) => bundle) as [PolicyBundle, PolicyBundle];
  const [known, knows] = [old, next].map((bundle) => checkBundle(bundle).entities);
  const differing: readonly (readonly [boolean, string])[] = [
    [!isDeepStrictEqual(old.callerAttributes, next.callerAttributes), "attributes of callers are declared otherwise"],
    [old.schema !== next.schema, "the directories have other schemas, and policies are proven under one"],
    [!isDeepStrictEqual(old.entities?.references, next.entities?.references), "entities are referred to otherwise"],
    [known !== knows, "the directories have other entities, and policies are proven under the same"],
    [!hasSameGuidance(sides), "the manifests differ in guidance"],
    [!isDeepStrictEqual(old.keyReferences, next.keyReferences), "the manifests differ in key references"],
    [!isDeepStrictEqual(old.actions, next.actions), "the manifests differ in names of actions"],
    [
      sides.some(({ catalogue }) => catalogue.refersToPrincipals),
      "entities refer to principals, of whom a request has the caller alone",
    ],
  ];
  return differing.flatMap(([differs, reason]) => (differs ? [reason] : []));
}

function questionsOf(sides: readonly [Side, Side]) {
  const indices = new Map<string, number>();
  const policies: string[] = [];
  const conditionsOf = memoized(conditionsIn);
  const indexOf = (text: string): number => {
    const conditions = conditionsOf(text);
    const index = indices.get(conditions) ?? policies.push(text) - 1;
    indices.set(conditions, index);
    return index;
  };
  const principals = principalsNamed(sides);
  const asked: Asked[] = [];
  const tooLarge: Omit<Asked, "question">[] = [];
  let statements = 0;
  let named = 0;
  for (const group of tenantGroups(sides)) {
    for (const action of policyActions) {
      const [old, next] = sides.map((side) => layersOf(side, group.tenant, action));
      for (const isOnBehalfOf of [false, true]) {
        const pairs = statementPairs([old, next], isOnBehalfOf, indexOf);
        // Where nothing is asked, all is proven by its form: that is one statement.
        statements += Math.max(pairs.length, 1);
        const [{ catalogue }] = sides;
        const assuming = requestDomain({ catalogue, tenants: group.domain, isOnBehalfOf, principals });
        for (const { about, ...pair } of pairs) {
          named += pair.statements.reduce((sum, { evaluable }) => sum + evaluable.length, 0);
          const subject = { group, action, about, isOnBehalfOf };
          if (named > maxNamed) tooLarge.push(subject);
          else asked.push({ ...subject, question: { action, assuming, ...pair } });
        }
      }
    }
  }
  return { policies, asked, statements, tooLarge };
}

/** The same for policies that apply to the same by their form: of another layout, id, effect or annotation. */
function conditionsIn(text: string): string {
  const parsed = cedar().policyToJson(text);
  if (parsed.type === "failure") throw new TypeError("a policy of a bundle without problems is Cedar");
  const { principal, action, resource, conditions } = parsed.json;
  return JSON.stringify([principal, action, resource, conditions]);
}

function memoized(make: (text: string) => string): (text: string) => string {
  const made = new Map<string, string>();
  return (text) => {
    const known = made.get(text) ?? make(text);
    made.set(text, known);
    return known;
  };
}

function principalsNamed(sides: readonly [Side, Side]): readonly string[] {
  const named = sides.flatMap((side) =>
    [...checkBundle(side.bundle).sets.values()].flat().flatMap((policy) => [...comparisonsOf(policy, side).principals]),
  );
  return [...new Set(named)].sort();
}

function tenantGroups(sides: readonly [Side, Side]): readonly TenantGroup[] {
  const named = [...new Set(sides.flatMap(({ bundle }) => Object.keys(bundle.manifest.tenants)))]
    .filter((tenant) => tenant !== otherTenants)
    .sort();
  const setsOf = (tenant: string) =>
    JSON.stringify(sides.map(({ engine }) => engine.setOf("tenant", tenant as TenantId)));
  const groups = Map.groupBy([...named, unnamedTenant], setsOf);
  return [...groups.values()].map((names) => ({
    tenant: names[0] as TenantId,
    names,
    domain: names.includes(unnamedTenant)
      ? { except: named.filter((tenant) => !names.includes(tenant)) }
      : { among: names },
  }));
}

function described({ group, action, about, isOnBehalfOf }: Omit<Asked, "question">): string {
  const names = group.names.map((name) => (name === unnamedTenant ? "any other tenant" : name)).join(", ");
  const guidance = about === "guidance" ? ", its guidance" : "";
  return `${action} for ${names}${isOnBehalfOf ? ", about somebody else" : ""}${guidance}`;
}

/** Puts it to both bundles, and notes it where they do decide differently. */
function confirm(
  sides: readonly [Side, Side],
  { group, action }: Asked,
  counterexample: Counterexample,
  found: Map<string, PolicyChange>,
): boolean {
  const question = questionIn(counterexample, action, group.tenant, sides[0].catalogue);
  const difference = question && ask(sides, question);
  if (question === undefined || difference === undefined) return false;
  const isSame = (simpler: WrittenQuestion) => isDeepStrictEqual(outcomeOf(ask(sides, simpler)), outcomeOf(difference));
  const ofUsualTenant = { ...question, tenant: group.tenant };
  const example = askable(
    sides.map(({ bundle }) => bundle),
    simplified(isSame(ofUsualTenant) ? ofUsualTenant : question, isSame),
  );
  const tenant = group.names.includes(example.tenant) ? example.tenant : unnamedTenant;
  const key = JSON.stringify(outcomeOf(difference));
  const known = found.get(key);
  found.set(key, {
    ...difference,
    cause: "found by the solver",
    example: known?.example ?? example,
    size: JSON.stringify(example).length,
    tenants: [...new Set([...(known?.tenants ?? []), tenant])].sort(),
    actions: [...new Set([...(known?.actions ?? []), action])],
  });
  return true;
}

function ask(sides: readonly [Side, Side], question: WrittenQuestion) {
  const [before, after] = sides.map((side) => {
    const query = queryFor(side.bundle, question);
    return query && side.engine.decide(query);
  });
  const difference = before && after && differenceOf(before, after);
  if (before === undefined || after === undefined || difference === undefined) return undefined;
  return difference.kind === "reasons" ? undefined : { difference, before, after };
}

function outcomeOf(asked: ReturnType<typeof ask>) {
  return asked && [asked.difference, asked.before.reasons, asked.after.reasons];
}
