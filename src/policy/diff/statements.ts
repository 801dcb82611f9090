/**
 * Statements to prove of two bundles about one action of tenants with the same sets: that policies allow the same
 * requests, and give the same guidance. Guidance is merged from the parts that deciding policies give
 * (`guidance.ts`), so it is the same if, for each part, some policy with it decides for the same requests.
 */

import canonicalize from "canonicalize";
import { parsePrincipalId, parseTenantId } from "../../base/ids.ts";
import { isObject, type JsonObject, objectOf, orUndefined, parseJson } from "../../base/json.ts";
import type { CheckedPolicy } from "../check/check-set.ts";
import { placed, valueIn } from "../check/question.ts";
import { usualText } from "../check/terms.ts";
import { type Input, type InputCatalogue, onBehalfOfName } from "../model/inputs.ts";
import type { WrittenQuestion } from "../model/query.ts";
import { isGuided } from "./side.ts";

/** Subject of two statements, one for each bundle. */
export interface StatementPair {
  readonly about: "decision" | "guidance";
  readonly statements: readonly [Statement, Statement];
  /** Pairs about only the policies that differ, which imply the pair. Empty if all policies differ. */
  readonly sufficient: readonly (readonly [Statement, Statement])[];
}

/**
 * The pairs that must hold for the same requests, without those that do by their form alone.
 *
 * @param sides policies of each layer, on both sides; undefined if everything is denied
 * @param indexOf index of a policy's conditions, for the prover
 */
export function statementPairs(
  sides: readonly (readonly (readonly CheckedPolicy[])[] | undefined)[],
  indexOf: (text: string) => number,
): readonly StatementPair[] {
  const [old, next] = sides.map((side) => statementOf(side, indexOf)) as [Deciding, Deciding];
  const pairs = [pairOf("decision", old.allows, next.allows)];
  for (const said of new Set([...old.guided.keys(), ...next.guided.keys()])) {
    pairs.push(pairOf("guidance", old.guided.get(said) ?? never, next.guided.get(said) ?? never));
  }
  return pairs.filter(({ statements: [one, other] }) => JSON.stringify(one) !== JSON.stringify(other));
}

/** A statement over lists of policies: whether all of them can be evaluated, and whether any of each applies. */
interface Rule extends Statement {
  readonly lists: readonly (readonly number[])[];
}

interface Deciding {
  readonly allows: Rule;
  /** When some policy with this guidance decides, by effect and guidance. */
  readonly guided: ReadonlyMap<string, Rule>;
}

const never: Rule = { evaluable: [], holds: { any: [] }, lists: [] };

function pairOf(about: StatementPair["about"], one: Rule, other: Rule): StatementPair {
  const statements = [one, other].map(({ evaluable, holds }) => ({ evaluable, holds })) as [Statement, Statement];
  return { about, statements, sufficient: sufficientPairs(one, other) };
}

/** Shared policies act the same on both sides, so it suffices that the other ones do. */
function sufficientPairs(one: Rule, other: Rule): readonly (readonly [Statement, Statement])[] {
  const isShared = without(one.evaluable, other.evaluable).length < one.evaluable.length;
  if (!isShared || one.lists.length !== other.lists.length) return [];
  const pairs = one.lists.map((list, at) => {
    const [removed, added] = [without(list, other.lists[at] ?? []), without(other.lists[at] ?? [], list)];
    return [anyApplies(removed), anyApplies(added)] as const;
  });
  const removed = { evaluable: without(one.evaluable, other.evaluable), holds: { all: [] } };
  const added = { evaluable: without(other.evaluable, one.evaluable), holds: { all: [] } };
  return [...pairs, [removed, added] as const].filter(
    ([before, after]) => JSON.stringify(before) !== JSON.stringify(after),
  );
}

function without(indices: readonly number[], others: readonly number[]): readonly number[] {
  const left = new Set(others);
  return indices.filter((index) => !left.has(index));
}

function anyApplies(evaluable: readonly number[]): Statement {
  return { evaluable, holds: any(evaluable) };
}

function statementOf(
  layers: readonly (readonly CheckedPolicy[])[] | undefined,
  indexOf: (text: string) => number,
): Deciding {
  if (layers === undefined) return { allows: never, guided: new Map() };
  const indicesOf = (policies: readonly CheckedPolicy[], effect?: CheckedPolicy["effect"]) =>
    sorted(policies.filter((policy) => policy.effect === (effect ?? policy.effect)).map(({ text }) => indexOf(text)));
  const all = layers.flat();
  // One failing policy denies everything.
  const evaluable = indicesOf(all);
  const permits = layers.map((policies) => indicesOf(policies, "permit"));
  const forbids = indicesOf(all, "forbid");
  const isOpen = permits.every((indices) => indices.length > 0);
  const holds: Formula = { all: [...permits.map(any), { not: any(forbids) }] };
  const allows = isOpen ? { evaluable, holds, lists: [...permits, forbids] } : never;
  const guided = new Map<string, Rule>();
  const groups = Map.groupBy(
    all.filter(isGuided),
    ({ effect, guidance }) => canonicalize([effect, guidance]) as string,
  );
  for (const [said, policies] of groups) {
    const saying = indicesOf(policies);
    // A permit decides if it applies and everything is allowed; a forbid whenever it applies.
    const isPermit = policies[0]?.effect === "permit";
    if (!isPermit) guided.set(said, { evaluable, holds: any(saying), lists: [saying] });
    else if (isOpen)
      guided.set(said, { evaluable, holds: { all: [holds, any(saying)] }, lists: [...allows.lists, saying] });
  }
  return { allows, guided };
}

function any(indices: readonly number[]): Formula {
  return { any: indices.map((applies) => ({ applies })) };
}

function sorted(indices: readonly number[]): readonly number[] {
  return [...new Set(indices)].sort((a, b) => a - b);
}

// The requests that a proof covers: those that the service can make, as a Cedar expression. The schema gives the types
// of inputs, and this expression the rest: without it the solver would find differences that no question can show, such
// as an application without a name.

export interface RequestDomain {
  readonly catalogue: InputCatalogue;
  /** Tenants that ask; or tenants that do not. */
  readonly tenants: { readonly among: readonly string[] } | { readonly except: readonly string[] };
  /** Whether it is about another subject than the caller. */
  readonly isOnBehalfOf: boolean;
  /** Principals that policies name: `tenant/principal`. */
  readonly principals: readonly string[];
}

/** Returns a Cedar expression that is true for every request of the service, and does not fail. */
export function requestDomain({ catalogue, tenants, isOnBehalfOf, principals }: RequestDomain): string {
  const records = catalogue.inputs.filter(({ kind }) => kind === "record");
  const isWithin = (record: Input, { path }: Input) => path.startsWith(`${record.path}.`);
  const outside = catalogue.inputs.filter((input) => !records.some((record) => isWithin(record, input)));
  const always = outside.flatMap((input) => conditionOf(input));
  const within = records.map((record) => {
    const conditions = catalogue.inputs.filter((input) => isWithin(record, input)).flatMap(conditionOf);
    const isAsked = record.name === onBehalfOfName;
    const then = all(record.name === "registered" ? [...conditions, labelsEver] : conditions);
    if (isAsked && !isOnBehalfOf) return `!(${has(record.path)})`;
    return isAsked ? `${has(record.path)} && ${then}` : `if ${has(record.path)} then ${then} else true`;
  });
  return all([...always, ...within, ...tenantCondition(tenants), ...principals.map(identity)]);
}

/** A label stays in it for good. */
const labelsEver = "context.registered.labels_ever.containsAll(context.registered.labels)";

function conditionOf(input: Input): readonly string[] {
  const { path, optional } = input;
  const holds = valueCondition(input, expressionOf(path));
  if (holds === undefined) return [];
  return [optional ? `if ${has(path)} then ${holds} else true` : holds];
}

function valueCondition({ kind, path, words, least, mayBeEmpty }: Input, value: string): string | undefined {
  if (words !== undefined) return `${cedarTexts(words)}.contains(${value})`;
  switch (kind) {
    case "text":
      return mayBeEmpty ? undefined : `${value} != ""`;
    case "set_of_text":
      return mayBeEmpty ? undefined : `!${value}.contains("")`;
    case "whole_number":
      return `${value} >= ${least ?? Number.MIN_SAFE_INTEGER} && ${value} <= ${Number.MAX_SAFE_INTEGER}`;
    case "tags":
      return `${value} == Attributes::${cedarText(path.split(".").at(-2) as string)}`;
    case "yes_no":
    case "record":
      return undefined;
  }
}

function tenantCondition(tenants: RequestDomain["tenants"]): readonly string[] {
  const tenant = "principal.tenant";
  if ("among" in tenants) return [`${cedarTexts(tenants.among)}.contains(${tenant})`];
  return tenants.except.length === 0 ? [] : [`!${cedarTexts(tenants.except)}.contains(${tenant})`];
}

/** The id must agree with the attributes that policies read. */
function identity(uid: string): string {
  const [tenant, principal] = [uid.slice(0, uid.indexOf("/")), uid.slice(uid.indexOf("/") + 1)];
  const read = `principal.tenant == ${cedarText(tenant)} && principal.principal_id == ${cedarText(principal)}`;
  return `(principal == Principal::${cedarText(uid)}) == (${read})`;
}

function expressionOf(path: string): string {
  const [root, ...members] = path.split(".");
  return `${root}${members.map((member) => `[${cedarText(member)}]`).join("")}`;
}

function has(path: string): string {
  const at = path.lastIndexOf(".");
  return `${expressionOf(path.slice(0, at))} has ${cedarText(path.slice(at + 1))}`;
}

function all(conditions: readonly string[]): string {
  return conditions.length === 0 ? "true" : conditions.map((condition) => `(${condition})`).join(" && ");
}

function cedarTexts(texts: readonly string[]): string {
  return `[${texts.map(cedarText).join(", ")}]`;
}

/** A Cedar string literal. */
function cedarText(text: string): string {
  const escaped = text.replace(/["\\\p{Cc}]/gu, (one) => `\\u{${one.codePointAt(0)?.toString(16)}}`);
  return `"${escaped}"`;
}

/** Undefined if it does not have the schema's form. Entities that the solver made up are left out. */
export function questionIn(
  { principal, context, entities }: Counterexample,
  action: string,
  usualTenant: string,
  catalogue: InputCatalogue,
): WrittenQuestion | undefined {
  const given = entities.map(objectOf).filter(({ uid }) => uid !== undefined);
  const known = new Map(given.map((entity) => [keyOf(entity.uid), entity]));
  const caller = known.get(keyOf(principal));
  if (caller === undefined || !isObject(context)) return undefined;
  let question: WrittenQuestion = { tenant: usualTenant, principal: {}, action, claimed: {} };
  for (const { name, kind, path } of catalogue.inputs) {
    const value = valueIn({ principal: objectOf(caller.attrs), context }, path.split("."));
    if (value === undefined || kind === "record") continue;
    question = placed(question, name, kind === "tags" ? objectOf(known.get(keyOf(value))?.tags) : value);
  }
  // The solver does not know the rules for ids.
  const { principal_id: id } = question.principal;
  if (typeof id !== "string" || parsePrincipalId(id) === undefined)
    question = placed(question, "caller.principal_id", usualText);
  const isTenant = typeof question.tenant === "string" && parseTenantId(question.tenant) !== undefined;
  return isTenant ? question : { ...question, tenant: usualTenant };
}

/** `{ "type", "id" }`, or the same within the only member `__entity`. */
function keyOf(uid: unknown): string {
  const { __entity, type, id } = objectOf(uid);
  return __entity === undefined ? JSON.stringify([type, id]) : keyOf(__entity);
}

// Protocol of the prover: JSON on its standard input, JSON lines on its standard output.

/** A formula over policies, given by index, that apply. */
type Formula =
  | { readonly all: readonly Formula[] }
  | { readonly any: readonly Formula[] }
  | { readonly not: Formula }
  | { readonly applies: number };

/** Holds for a request if these policies can all be evaluated, and the formula is true. */
interface Statement {
  readonly evaluable: readonly number[];
  readonly holds: Formula;
}

/** Whether two statements hold for the same requests with an action, under the assumption of a Cedar expression. */
export interface ProverQuestion {
  readonly action: string;
  readonly assuming: string;
  readonly statements: readonly [Statement, Statement];
  /** Smaller pairs that imply the question: if the members of each hold for the same requests, so do `statements`. */
  readonly sufficient: readonly (readonly [Statement, Statement])[];
}

export interface ProverRequest {
  readonly schema: string;
  readonly policies: readonly string[];
  /** How long the solver may work on one question. */
  readonly timeout_ms: number;
  readonly questions: readonly ProverQuestion[];
}

/** A request in Cedar's JSON forms, with made-up entities. */
export interface Counterexample {
  readonly principal: unknown;
  readonly context: unknown;
  readonly entities: readonly unknown[];
}

export type ProverAnswer =
  | { readonly equal: true }
  | { readonly counterexample: Counterexample }
  | { readonly undecided: string };

/** The prover and an answer for each question, in order; or one line with what is missing and how to get it. */
export type ProverOutcome =
  | { readonly solver: string; readonly answers: readonly ProverAnswer[]; readonly missing?: never }
  | { readonly missing: string };

/** The first line: the prover's versions. */
export interface ProverHead {
  readonly cedar: string;
  readonly solver?: string;
  readonly problem?: string;
}

/** Undefined if the line is not a head. */
export function parseHead(line: string): ProverHead | undefined {
  const { cedar, solver, problem } = parseObject(line);
  if (typeof cedar !== "string") return undefined;
  if (typeof solver === "string") return { cedar, solver };
  return typeof problem === "string" ? { cedar, problem } : undefined;
}

/** Undefined if the line is not an answer: an unrecognized line is never a proof. */
export function parseAnswer(line: string): ProverAnswer | undefined {
  const answer = parseObject(line);
  if (Object.keys(answer).length !== 1) return undefined;
  const { equal, undecided, counterexample } = answer;
  if (equal === true) return { equal };
  if (typeof undecided === "string") return { undecided };
  const { principal, context, entities } = objectOf(counterexample);
  return Array.isArray(entities) ? { counterexample: { principal, context, entities } } : undefined;
}

/** An empty object for any other line. */
function parseObject(line: string): JsonObject {
  return objectOf(orUndefined(() => parseJson(line)));
}
