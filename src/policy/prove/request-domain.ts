/**
 * Of which requests it is proven that they are decided alike: those that the service makes of questions, as an expression
 * of Cedar. The schema says of which types the inputs are, and this the rest: the solver would otherwise find differences
 * that no question shows, such as an application without a name.
 */

import { type Input, type InputCatalogue, onBehalfOfName } from "../engine/inputs.ts";
import { closedWords, mayBeEmpty } from "../samples/samples.ts";

export interface RequestDomain {
  readonly catalogue: InputCatalogue;
  /** Tenants that ask; or those of which none does. */
  readonly tenants: { readonly among: readonly string[] } | { readonly except: readonly string[] };
  /** Whether it is about somebody else than the caller. */
  readonly isOnBehalfOf: boolean;
  /** Principals that policies name: `tenant/principal`. */
  readonly principals: readonly string[];
}

/** A Cedar expression that holds for every request of the service, and does not fail. */
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

/** No label ever leaves it. */
const labelsEver = "context.registered.labels_ever.containsAll(context.registered.labels)";

function conditionOf(input: Input): readonly string[] {
  const { path, optional } = input;
  const holds = valueCondition(input, expressionOf(path));
  if (holds === undefined) return [];
  return [optional ? `if ${has(path)} then ${holds} else true` : holds];
}

function valueCondition({ kind, name, path }: Input, value: string): string | undefined {
  const words = closedWords[name];
  if (words !== undefined) return `${cedarTexts(words)}.contains(${value})`;
  switch (kind) {
    case "text":
      return mayBeEmpty(name) ? undefined : `${value} != ""`;
    case "set_of_text":
      return mayBeEmpty(name) ? undefined : `!${value}.contains("")`;
    case "whole_number": {
      const least = name === "content_size_bytes" ? 0 : Number.MIN_SAFE_INTEGER;
      return `${value} >= ${least} && ${value} <= ${Number.MAX_SAFE_INTEGER}`;
    }
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

/** Its id is made of what is read of it. */
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

/** A literal of Cedar. */
function cedarText(text: string): string {
  const escaped = text.replace(/["\\\p{Cc}]/gu, (one) => `\\u{${one.codePointAt(0)?.toString(16)}}`);
  return `"${escaped}"`;
}
