/**
 * Asks two bundles the same questions and reports different decisions: questions of their tests, the same with one
 * member changed, and questions of values that the policies compare with. Differences may remain undetected; only a
 * proof (`prove.ts`) excludes them.
 */
import { isDeepStrictEqual } from "node:util";
import { checkBundle } from "../check/check.ts";
import type { CheckedPolicy } from "../check/check-set.ts";
import { askable, queryFor, simplified, understood, usualQuestion, withValue } from "../check/question.ts";
import { type AskedVariable, comparisonsOf, draws, merged, nameOf, variablesOf } from "../check/terms.ts";
import { expressionText, hasUnsafeNumber } from "../evaluate/conditions.ts";
import type { PolicyBundle } from "../load/bundle.ts";
import { parsedPolicy } from "../model/cedar.ts";
import { type Answered, answerOf, type DecisionDifference, differenceOf } from "../model/decision.ts";
import { onBehalfOfName } from "../model/inputs.ts";
import type { WrittenQuestion } from "../model/query.ts";
import { policyActions } from "../model/schema.ts";
import { knownEntities, type Side, sideOf, type TenantGroup, tenantGroups, unnamedTenant } from "./side.ts";

type FoundBy = "test" | "mutation" | "sample" | "solver";

/** A kind of change in decisions, because of the same policies, as a member of an answer. */
export interface PolicyChange extends Answers {
  readonly found_by: FoundBy;
  /** Affected tenants, sorted; `unnamedTenant` for all that neither bundle names. */
  readonly tenants: readonly string[];
  readonly actions: readonly string[];
  /** As small as possible. */
  readonly example: WrittenQuestion;
}

/** A comparison as members of an answer. */
export interface PolicyComparison {
  /** Textual differences. */
  readonly summary: readonly PolicySummary[];
  /** Number of questions that both bundles decided. */
  readonly asked: number;
  /** In the order in which they were found. */
  readonly ways: readonly PolicyChange[];
}

/** Most questions with one member changed, and most questions of sampled values. */
const maxMutations = 100_000;
const maxSamples = 40_000;
/** Samples for each policy that is not on both sides; for each of the others if there is none. */
const samplesOfChanged = 1_000;
const samplesOfOthers = 16;

/**
 * Compares bundles without problems. Throws a TypeError for others.
 *
 * @param tests questions from the tests of either bundle
 */
export function compareBundles(
  old: PolicyBundle,
  next: PolicyBundle,
  tests: readonly WrittenQuestion[] = [],
): PolicyComparison {
  const known = knownEntities([old, next]);
  const sides = [sideOf(old, known), sideOf(next, known)] as const;
  const search = new Search(sides);
  for (const question of tests) search.ask(question, "test");
  const groups = tenantGroups(sides).map((group) => askedOf(sides, group));
  for (const question of mutationsOf(tests, groups)) search.ask(question, "mutation");
  for (const group of groups)
    for (const question of samplesOf(group, groups.length, tests)) search.ask(question, "sample");
  return { summary: summaryOf(old, next), asked: search.asked, ways: [...search.found.values()] };
}

class Search {
  asked = 0;
  readonly found = new Map<string, PolicyChange>();
  readonly #sides: readonly [Side, Side];
  readonly #named: ReadonlySet<string>;

  constructor(sides: readonly [Side, Side]) {
    this.#sides = sides;
    this.#named = new Set(tenantGroups(sides).flatMap(({ names }) => names));
  }

  ask(question: WrittenQuestion, found_by: FoundBy): void {
    const answers = decideBoth(this.#sides, question);
    this.asked += 1;
    if (answers === undefined) return;
    const key = keyOf(answers);
    const known = this.found.get(key);
    const tenant = this.#named.has(question.tenant) ? question.tenant : unnamedTenant;
    if (known?.tenants.includes(tenant) && known.actions.includes(question.action)) return;
    const change = known ?? { ...answers, found_by, example: smallestExample(this.#sides, question, key) };
    this.found.set(key, extended(change, tenant, question.action));
    for (const action of policyActions) if (action !== question.action) this.ask({ ...question, action }, found_by);
  }
}

type FoundChange = Omit<PolicyChange, "tenants" | "actions"> & Partial<PolicyChange>;

/** The change, of one more tenant and action. */
export function extended(
  { kind, found_by, tenants = [], actions = [], guidance, before, after, example }: FoundChange,
  tenant: string,
  action: string,
): PolicyChange {
  return {
    kind,
    found_by,
    tenants: [...new Set([...tenants, tenant])].sort(),
    actions: policyActions.filter((each) => each === action || actions.includes(each)),
    guidance,
    before,
    after,
    example,
  };
}

/** Whether both sides decide a question with the difference of this key. */
export function isDecidedSo(sides: readonly [Side, Side], key: string): (question: WrittenQuestion) => boolean {
  return (question) => {
    const answers = decideBoth(sides, question);
    return answers !== undefined && keyOf(answers) === key;
  };
}

/** The question without what its difference does not need. */
export function smallestExample(sides: readonly [Side, Side], question: WrittenQuestion, key: string): WrittenQuestion {
  return askable(
    sides.map(({ bundle }) => bundle),
    simplified(question, isDecidedSo(sides, key)),
  );
}

interface Answers extends DecisionDifference {
  readonly before: Answered;
  readonly after: Answered;
}

/** Decides the question on both sides; undefined if only reasons differ, or no request can ask it. */
export function decideBoth(sides: readonly [Side, Side], question: WrittenQuestion): Answers | undefined {
  const [before, after] = sides.map((side) => {
    const query = queryFor(side.bundle, question);
    return query && side.engine.decide(query);
  });
  const difference = before && after && differenceOf(before, after);
  if (before === undefined || after === undefined) return undefined;
  if (difference === undefined || difference.kind === "reasons") return undefined;
  return { ...difference, before: answerOf(before), after: answerOf(after) };
}

/** The same key for differences of one kind because of the same policies. */
export function keyOf({ kind, guidance, before, after }: Answers): string {
  const gone = before.reasons.filter((reason) => !after.reasons.includes(reason));
  const added = after.reasons.filter((reason) => !before.reasons.includes(reason));
  return JSON.stringify([kind, guidance, gone, added]);
}

/** Tenants with the same sets, and the questions for them. */
interface AskedGroup extends TenantGroup {
  /** Variables of all policies of the sets, on both sides. */
  readonly variables: readonly AskedVariable[];
  /** Policies to sample for. */
  readonly focus: readonly (readonly [CheckedPolicy, readonly AskedVariable[]])[];
  readonly samplesEach: number;
}

function askedOf(sides: readonly [Side, Side], group: TenantGroup): AskedGroup {
  const policies = sides.map(({ engine }) => engine.layersOf(group.tenant).flatMap(({ set }) => set.policies));
  const texts = policies.map((own) => new Set(own.map(({ text }) => text)));
  const all = sides.flatMap((side, at) =>
    (policies[at] ?? []).map((policy) => {
      return [
        policy,
        [...variablesOf(comparisonsOf(policy, side.catalogue, side.known)), ...guidanceVariables(policy)],
      ] as const;
    }),
  );
  const isChanged = ([{ text }]: (typeof all)[number]) => texts.some((own) => !own.has(text));
  const changed = all.filter(isChanged);
  return {
    ...group,
    variables: merged([...all.flatMap(([, own]) => own), ...besides(sides)]),
    focus: changed.length > 0 ? changed : all,
    samplesEach: changed.length > 0 ? samplesOfChanged : samplesOfOthers,
  };
}

/** What a policy's guidance requires of callers: understood obligations, and scopes. */
function guidanceVariables({ guidance }: CheckedPolicy): readonly AskedVariable[] {
  const asked = (term: string) => (member: string) => ({ term, member, values: [false, true], telling: [true] });
  return [
    ...(guidance.obligations ?? []).map(({ id }) => asked(understood)(id)),
    ...(guidance.lists.required_scopes ?? []).map(asked("caller.scopes")),
  ];
}

/** What decides besides policies: rules for key references, and whether there is another subject. */
function besides(sides: readonly [Side, Side]): readonly AskedVariable[] {
  const references = sides.flatMap(({ bundle }) =>
    bundle.keyReferences.map(({ pattern }) => pattern.replaceAll("*", "")),
  );
  return [
    { term: "key_reference", values: [undefined, ...references], telling: references },
    { term: onBehalfOfName, values: [undefined, true], telling: [true] },
  ];
}

function* mutationsOf(tests: readonly WrittenQuestion[], groups: readonly AskedGroup[]): Generator<WrittenQuestion> {
  const variables = merged(groups.flatMap((group) => group.variables));
  const values = variables.flatMap((variable) => variable.values.map((value) => [variable, value] as const));
  const tenants = groups.map(({ tenant }) => tenant);
  const each = policyActions.length + tenants.length + values.length;
  // If there are too many, only every n-th, with another start for each test.
  const step = Math.max(1, Math.ceil((tests.length * each) / maxMutations));
  for (const [at, question] of tests.entries()) {
    for (const action of policyActions) yield { ...question, action };
    for (const tenant of tenants) yield { ...question, tenant };
    for (let index = at % step; index < values.length; index += step) {
      const [variable, value] = values[index] as (typeof values)[number];
      yield withValue(question, variable, value);
    }
  }
}

function* samplesOf(
  { tenant, variables, focus, samplesEach }: AskedGroup,
  groups: number,
  tests: readonly WrittenQuestion[],
): Generator<WrittenQuestion> {
  const { below, pick, pickAction } = draws(focus.length + groups);
  const count = Math.min(samplesEach, Math.max(1, Math.floor(maxSamples / (Math.max(1, focus.length) * groups))));
  for (const [{ actions }, own] of focus) {
    const names = new Set(own.map(nameOf));
    const others = variables.filter((variable) => !names.has(nameOf(variable)));
    for (let number = 0; number < count; number++) {
      const action = pickAction(actions);
      const isFromTest = tests.length > 0 && below(3) === 0;
      let question: WrittenQuestion = isFromTest ? { ...pick(tests), tenant, action } : usualQuestion(tenant, action);
      // Most questions should meet the policy; some are arbitrary.
      const isTelling = below(4) > 0;
      for (const variable of own) {
        const { telling, values, term } = variable;
        if (term === "caller.tenant_id" && below(3) > 0) continue;
        if (isTelling && telling.length > 0 && below(6) > 0) question = withValue(question, variable, pick(telling));
        else if (below(2) === 0) question = withValue(question, variable, pick(values));
      }
      for (let more = below(3); more > 0 && others.length > 0; more--) {
        const variable = pick(others);
        question = withValue(question, variable, pick(variable.values));
      }
      yield question;
    }
  }
}

// Textual differences between two bundles, policy by policy, whatever their effect.

/** A policy, or a member of the manifest, that differs. */
export interface PolicySummary {
  /** Absent for the manifest. */
  readonly set?: string;
  /** `@id` of the policy, or name of the member. */
  readonly id: string;
  readonly change: "added" | "removed" | "changed";
  /** Added (`+`) and removed (`-`) parts, such as `+ action unwrap`. Empty for whole policies and members. */
  readonly lines: readonly string[];
}

/** In the order of the sets and their policies. Ignores layout and file names. */
function summaryOf(old: PolicyBundle, next: PolicyBundle): readonly PolicySummary[] {
  const { sets: before } = checkBundle(old);
  const { sets: after } = checkBundle(next);
  const sets = new Set([...before.keys(), ...after.keys()]);
  return [
    ...memberSummaries(old, next),
    ...[...sets].flatMap((set) => setSummaries(set, before.get(set)?.policies, after.get(set)?.policies)),
  ];
}

/** Members of the bundle besides its policies. */
const members = [
  ...["manifest", "guidance", "strictness", "keyReferences", "actions", "disclosable", "supportedProfiles"],
  ...["callerAttributes", "entities"],
] as readonly (keyof PolicyBundle)[];

function memberSummaries(old: PolicyBundle, next: PolicyBundle): readonly PolicySummary[] {
  return members.flatMap((id): readonly PolicySummary[] => {
    if (isDeepStrictEqual(old[id], next[id])) return [];
    const change = old[id] === undefined ? "added" : next[id] === undefined ? "removed" : "changed";
    return [{ id: id.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), change, lines: [] }];
  });
}

function setSummaries(
  set: string,
  before: readonly CheckedPolicy[] = [],
  after: readonly CheckedPolicy[] = [],
): readonly PolicySummary[] {
  const [old, next] = [before, after].map((policies) => new Map(policies.map((policy) => [policy.id, policy])));
  return [...new Set([...before, ...after].map(({ id }) => id))].flatMap((id): readonly PolicySummary[] => {
    const [was, is] = [old?.get(id), next?.get(id)];
    if (was === undefined || is === undefined)
      return [{ set, id, change: is === undefined ? "removed" : "added", lines: [] }];
    if (was.text === is.text) return [];
    const [gone, added] = [partsOf(was), partsOf(is)];
    const lines = [
      ...gone.filter((part) => !added.includes(part)).map((part) => `- ${part}`),
      ...added.filter((part) => !gone.includes(part)).map((part) => `+ ${part}`),
    ];
    return lines.length === 0 ? [] : [{ set, id, change: "changed", lines }];
  });
}

/** Splits a policy into comparable parts. */
function partsOf({ text, effect, actions }: CheckedPolicy): readonly string[] {
  const { principal, resource, conditions, annotations = {} } = parsedPolicy(text);
  return [
    `effect ${effect}`,
    ...[...actions].map((action) => `action ${action}`),
    ...(principal.op === "All" ? [] : [`principal ${JSON.stringify(principal)}`]),
    ...(resource.op === "All" ? [] : [`resource ${JSON.stringify(resource)}`]),
    ...(hasUnsafeNumber(conditions) ? [text] : conditions.map(({ kind, body }) => `${kind} ${expressionText(body)}`)),
    ...Object.entries(annotations).map(([name, value]) => `@${name}(${JSON.stringify(value ?? "")})`),
  ];
}
