/**
 * Proves of two bundles that they decide every request alike, or finds a request that they do not, with Cedar's own
 * symbolic compiler and a solver behind it. Both are outside of this project: where they are missing, nothing is proven.
 *
 * What is proven holds whatever entities there are; a counterexample may therefore be of entities that the directories do
 * not have, and counts only where the bundles, with their own entities, do decide its question differently.
 */
import { isDeepStrictEqual } from "node:util";
import { cedar } from "../cedar.ts";
import { checkBundle } from "../check/check.ts";
import { decideBoth, keyOf, type PolicyChange } from "../diff/compare.ts";
import {
  comparisonsOf,
  hasSameGuidance,
  layersOf,
  namedTenants,
  type Side,
  sideOf,
  type TenantGroup,
  tenantGroups,
  unnamedTenant,
} from "../diff/side.ts";
import type { PolicyAction } from "../engine/decision.ts";
import { policyActions } from "../engine/schema.ts";
import type { PolicyBundle } from "../load/bundle.ts";
import { askable, simplified, type WrittenQuestion } from "../samples/question.ts";
import { questionIn } from "./counterexample.ts";
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
 * @param known differences that were found without the solver
 */
export async function proveEqual(
  old: PolicyBundle,
  next: PolicyBundle,
  timeoutMs: number,
  askProver: AskProver,
  known: readonly PolicyChange[] = [],
): Promise<ProofOutcome> {
  const sides = [sideOf(old, new Map(), "cedar"), sideOf(next, new Map(), "cedar")] as const;
  try {
    const { policies, asked, statements, tooLarge } = old.schema === next.schema ? questionsOf(sides) : nothing;
    const undecided = new Set([...outsideOfProof(sides), ...tooLarge.map((each) => `${described(each)}: ${beyond}`)]);
    const questions = asked.map(({ question }) => question);
    const outcome =
      questions.length === 0
        ? { solver: "by their form", answers: [] }
        : await askProver({ schema: old.schema, policies, timeout_ms: timeoutMs, questions });
    if ("missing" in outcome && outcome.missing !== undefined) return outcome;
    const found = new Map<string, PolicyChange>();
    let proven = statements - asked.length - tooLarge.length;
    for (const [index, answer] of outcome.answers.entries()) {
      const each = asked[index] as Asked;
      if ("equal" in answer) proven += 1;
      else if ("undecided" in answer) undecided.add(`${described(each)}: ${answer.undecided}`);
      else if (!confirm(sides, each, answer.counterexample, found) && !isRefutedBy(known, each))
        undecided.add(`${described(each)}: ${unconfirmed}`);
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
const unconfirmed =
  "the solver found a difference only with entities or values that no request of this service can have";

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
        const assuming = requestDomain({ catalogue, tenants: domainOf(group, sides), isOnBehalfOf, principals });
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

/** The tenants of the group, as the prover assumes them. */
function domainOf({ names }: TenantGroup, sides: readonly [Side, Side]): RequestDomain["tenants"] {
  if (!names.includes(unnamedTenant)) return { among: names };
  return { except: namedTenants(sides).filter((tenant) => !names.includes(tenant)) };
}

function described({ group, action, about, isOnBehalfOf }: Omit<Asked, "question">): string {
  const names = group.names.map((name) => (name === unnamedTenant ? "any other tenant" : name)).join(", ");
  const guidance = about === "guidance" ? ", its guidance" : "";
  return `${action} for ${names}${isOnBehalfOf ? ", about somebody else" : ""}${guidance}`;
}

/** Asks both bundles, and notes the question if they do decide it differently. */
function confirm(
  sides: readonly [Side, Side],
  { group, action }: Asked,
  counterexample: Counterexample,
  found: Map<string, PolicyChange>,
): boolean {
  const question = questionIn(counterexample, action, group.tenant, sides[0].catalogue);
  const answers = question && decideBoth(sides, question);
  if (question === undefined || answers === undefined) return false;
  const key = keyOf(answers);
  const isSame = (simpler: WrittenQuestion) => {
    const other = decideBoth(sides, simpler);
    return other !== undefined && keyOf(other) === key;
  };
  const ofUsualTenant = { ...question, tenant: group.tenant };
  const example = askable(
    sides.map(({ bundle }) => bundle),
    simplified(isSame(ofUsualTenant) ? ofUsualTenant : question, isSame),
  );
  const tenant = group.names.includes(example.tenant) ? example.tenant : unnamedTenant;
  const known = found.get(key);
  found.set(key, {
    ...answers,
    foundBy: "solver",
    example: known?.example ?? example,
    tenants: [...new Set([...(known?.tenants ?? []), tenant])].sort(),
    actions: [...new Set([...(known?.actions ?? []), action])],
  });
  return true;
}

/** Whether an example that both bundles were asked refutes what the solver refutes too, with entities that it made up. */
function isRefutedBy(known: readonly PolicyChange[], { group, action, about, isOnBehalfOf }: Asked): boolean {
  return known.some(
    ({ difference, tenants, actions, example }) =>
      (difference.kind === "guides") === (about === "guidance") &&
      actions.includes(action) &&
      (example.on_behalf_of !== undefined) === isOnBehalfOf &&
      tenants.some((tenant) => group.names.includes(tenant)),
  );
}
