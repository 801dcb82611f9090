/**
 * The requests that a proof covers: those that the service can make, as a Cedar expression. The schema gives the types
 * of inputs, and this expression the rest: without it the solver would find differences that no question can show, such
 * as an application without a name.
 */
import { parsePrincipalId, parseTenantId } from "../../base/ids.ts";
import { place, usualText } from "../check/question.ts";
import { type Input, type InputCatalogue, onBehalfOfName } from "../model/inputs.ts";
import type { WrittenQuestion } from "../model/query.ts";
import { asObject, type Counterexample } from "./prover-wire.ts";

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

type Json = Readonly<Record<string, unknown>>;

/** Undefined if it does not have the schema's form. Entities that the solver made up are left out. */
export function questionIn(
  { principal, context, entities }: Counterexample,
  action: string,
  usualTenant: string,
  catalogue: InputCatalogue,
): WrittenQuestion | undefined {
  const known = new Map(
    entities.flatMap((entity) => {
      const { uid, attrs, tags } = asObject(entity) ?? {};
      return uid === undefined
        ? []
        : [[keyOf(uid), { attrs: asObject(attrs) ?? {}, tags: asObject(tags) ?? {} }] as const];
    }),
  );
  const caller = known.get(keyOf(principal))?.attrs;
  const asked = asObject(context);
  if (caller === undefined || asked === undefined) return undefined;
  const question = { tenant: usualTenant, principal: {}, action, claimed: {} };
  for (const { name, kind, path } of catalogue.inputs) {
    const value = valueAt({ principal: caller, context: asked }, path);
    if (value === undefined || kind === "record") continue;
    place(question, name, kind === "tags" ? (known.get(keyOf(value))?.tags ?? {}) : value);
  }
  // The solver does not know the rules for ids.
  const { principal_id: id } = question.principal as { readonly principal_id?: unknown };
  if (typeof id !== "string" || parsePrincipalId(id) === undefined) place(question, "caller.principal_id", usualText);
  if (typeof question.tenant !== "string" || parseTenantId(question.tenant) === undefined)
    question.tenant = usualTenant;
  return question;
}

/** `{ "type", "id" }`, or the same within the only member `__entity`. */
function keyOf(uid: unknown): string {
  const { __entity, type, id } = (asObject(uid) ?? {}) as Json;
  return __entity === undefined ? JSON.stringify([type, id]) : keyOf(__entity);
}

function valueAt(from: Json, path: string): unknown {
  let at: unknown = from;
  for (const name of path.split(".")) {
    const record = asObject(at);
    if (record === undefined || !Object.hasOwn(record, name)) return undefined;
    at = record[name];
  }
  return at;
}
