/**
 * Proves that two bundles decide every request alike, or finds one that they do not, with Cedar's own symbolic compiler
 * and a solver. Both are outside of this project: if they are missing, nothing is proven.
 *
 * A proof holds for any entities. A counterexample may therefore use entities that the directories do not have, and
 * counts only if the bundles, with their own entities, decide its question differently.
 */
import { isDeepStrictEqual } from "node:util";
import { checkBundle, policiesOf } from "../check/check.ts";
import { remembering } from "../check/check-set.ts";
import { comparisonsOf } from "../check/terms.ts";
import type { LayerSet } from "../engine/engine-set.ts";
import { hasUnsafeNumber } from "../evaluate/conditions.ts";
import type { PolicyBundle } from "../load/bundle.ts";
import { parsedPolicy } from "../model/cedar.ts";
import type { PolicyAction } from "../model/decision.ts";
import { policyActions } from "../model/schema.ts";
import { decideBoth, extended, isDecidedSo, keyOf, type PolicyChange, smallestExample } from "./compare.ts";
import { namedTenants, type Side, sideOf, type TenantGroup, tenantGroups, unnamedTenant } from "./side.ts";
import {
  type Counterexample,
  type ProverOutcome,
  type ProverQuestion,
  type ProverRequest,
  questionIn,
  type RequestDomain,
  requestDomain,
  type StatementPair,
  statementPairs,
} from "./statements.ts";

/** Asks the prover; a question without an answer is undecided. Does not reject. */
export type AskProver = (request: ProverRequest) => Promise<ProverOutcome>;

export interface Proof {
  /** Name that the solver reports. */
  readonly solver: string;
  /** Statements that were proven, and all of them; both include those that hold by their form alone. */
  readonly proven: number;
  readonly statements: number;
  /** Requests that are decided differently, confirmed with both bundles. */
  readonly found: readonly PolicyChange[];
  /** What is neither proven nor refuted. Sorted. */
  readonly undecided: readonly string[];
}

/** A proof, or one line with what is missing and how to get it. */
export type ProofOutcome = Proof | { readonly missing: string };

interface Asked {
  readonly group: TenantGroup;
  readonly action: PolicyAction;
  readonly about: StatementPair["about"];
  readonly isOnBehalfOf: boolean;
  readonly question: ProverQuestion;
}

/**
 * Takes bundles without problems. Throws a TypeError for others.
 *
 * @param timeoutMs how long the solver may work on one statement
 * @param known differences that were found without the solver
 */
export async function proveEqual(
  old: PolicyBundle,
  next: PolicyBundle,
  timeoutMs: number,
  askProver: AskProver,
  known: readonly PolicyChange[] = [],
): Promise<ProofOutcome> {
  const [none, byCedar] = [new Map(), { evaluator: "cedar" }] as const;
  const sides = [sideOf(old, none, byCedar), sideOf(next, none, byCedar)] as const;
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
}

const nothing = { policies: [], asked: [], statements: 0, tooLarge: [] };
/** Most policies that all statements name, repetitions included, at some tens of bytes each. */
const maxNamed = 2_000_000;
const beyond = "too many policies with too many kinds of guidance";
const unconfirmed = "the solver's counterexample needs entities or values that no request of this service can have";

/** Differences that no statement covers, and conditions under which statements would be wrong. */
function outsideOfProof(sides: readonly [Side, Side]): readonly string[] {
  const [old, next] = sides.map(({ bundle }) => bundle) as [PolicyBundle, PolicyBundle];
  const [known, knows] = [old, next].map((bundle) => checkBundle(bundle).entities);
  const differing: readonly (readonly [boolean, string])[] = [
    [!isDeepStrictEqual(old.callerAttributes, next.callerAttributes), "the declared attributes of callers differ"],
    [old.schema !== next.schema, "the directories' schemas differ, and a proof needs the same one"],
    [!isDeepStrictEqual(old.entities?.references, next.entities?.references), "the references to entities differ"],
    [known !== knows, "the directories' entities differ, and a proof needs the same ones"],
    [!isDeepStrictEqual(old.guidance, next.guidance), "the manifests differ in guidance"],
    [!isDeepStrictEqual(old.strictness, next.strictness), "the manifests differ in guidance"],
    [!isDeepStrictEqual(old.keyReferences, next.keyReferences), "the manifests differ in key references"],
    [!isDeepStrictEqual(old.actions, next.actions), "the manifests differ in names of actions"],
    [
      sides.some(({ catalogue }) => catalogue.refersToPrincipals),
      "entities refer to principals, but a request has only the caller",
    ],
  ];
  return differing.flatMap(([differs, reason]) => (differs ? [reason] : []));
}

function questionsOf(sides: readonly [Side, Side]) {
  const indices = new Map<string, number>();
  const policies: string[] = [];
  const conditionsOf = remembering(conditionsIn);
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
      for (const isOnBehalfOf of [false, true]) {
        const deciding = sides.map(({ engine }) => decidingIn(engine.layersOf(group.tenant), action, isOnBehalfOf));
        const pairs = statementPairs(deciding, indexOf);
        // Without questions, all is proven by form, which counts as one statement.
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

/** The policies of each layer that may decide; undefined if the tenant has no set, so that everything is denied. */
function decidingIn(layers: readonly LayerSet[], action: PolicyAction, isOnBehalfOf: boolean) {
  if (layers.every(({ layer }) => layer === "platform")) return undefined;
  return layers.map(({ set }) =>
    set.policies.filter((policy) => policy.actions.has(action) && (!isOnBehalfOf || policy.countsOnBehalfOf)),
  );
}

/** Equal for policies with the same conditions, whatever their layout, id, effect or annotations. */
function conditionsIn(text: string): string {
  const { principal, action, resource, conditions } = parsedPolicy(text);
  return hasUnsafeNumber(conditions) ? text : JSON.stringify([principal, action, resource, conditions]);
}

function principalsNamed(sides: readonly [Side, Side]): readonly string[] {
  const named = sides.flatMap((side) =>
    policiesOf(side.bundle).flatMap((policy) => [...comparisonsOf(policy, side.catalogue, side.known).principals]),
  );
  return [...new Set(named)].sort();
}

/** The tenants of the group, as an assumption of the prover. */
function domainOf({ names }: TenantGroup, sides: readonly [Side, Side]): RequestDomain["tenants"] {
  if (!names.includes(unnamedTenant)) return { among: names };
  return { except: namedTenants(sides).filter((tenant) => !names.includes(tenant)) };
}

function described({ group, action, about, isOnBehalfOf }: Omit<Asked, "question">): string {
  const names = group.names.map((name) => (name === unnamedTenant ? "any other tenant" : name)).join(", ");
  const guidance = about === "guidance" ? ", its guidance" : "";
  return `${action} for ${names}${isOnBehalfOf ? ", on behalf of another subject" : ""}${guidance}`;
}

/** Decides the question with both bundles, and records it if they differ. */
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
  const ofUsualTenant = { ...question, tenant: group.tenant };
  const isUsual = isDecidedSo(sides, key)(ofUsualTenant);
  const example = smallestExample(sides, isUsual ? ofUsualTenant : question, key);
  const tenant = group.names.includes(example.tenant) ? example.tenant : unnamedTenant;
  found.set(key, extended(found.get(key) ?? { ...answers, found_by: "solver", example }, tenant, action));
  return true;
}

/** Whether a known example refutes what the solver refutes with made-up entities. */
function isRefutedBy(known: readonly PolicyChange[], { group, action, about, isOnBehalfOf }: Asked): boolean {
  return known.some(
    ({ kind, tenants, actions, example }) =>
      (kind === "guides") === (about === "guidance") &&
      actions.includes(action) &&
      (example.on_behalf_of !== undefined) === isOnBehalfOf &&
      tenants.some((tenant) => group.names.includes(tenant)),
  );
}
