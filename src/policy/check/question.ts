/** Questions in the form that operators write and that bundles decide, built from values of variables. */
import { isDeepStrictEqual } from "node:util";
import type { PolicyQuery } from "../model/decision.ts";
import { type DeclaredInputs, inputCatalogue } from "../model/inputs.ts";
import { parseQuery, type WrittenQuestion } from "../model/query.ts";
import { usualText, type Value, type Variable } from "./terms.ts";

/** A question with only unremarkable values. */
export function usualQuestion(tenant: string, action: string): WrittenQuestion {
  const claimed = { workload: { application: usualText }, resource: { kind: usualText } };
  return { tenant, principal: {}, action, claimed };
}

/** The question of an assignment; variables without a value have their first one. */
export function questionOf(
  variables: readonly Variable[],
  assignment: ReadonlyMap<number, Value>,
  tenant: string,
  action: string,
): WrittenQuestion {
  const question = usualQuestion(tenant, action);
  const given = (index: number) => (assignment.has(index) ? assignment.get(index) : variables[index]?.values[0]);
  const absent = new Set<string | undefined>();
  for (const [index, { term }] of variables.entries())
    if (optionalRecords.has(term) && given(index) === undefined) absent.add(term);
  for (const [index, variable] of variables.entries())
    if (!absent.has(pathTo(variable.term)[0])) put(question, variable, given(index));
  return question;
}

/** The question with another value of one variable. */
export function withValue(question: WrittenQuestion, variable: Variable, value: Value): WrittenQuestion {
  const changed = structuredClone(question);
  put(changed, variable, value);
  return changed;
}

function put(question: WrittenQuestion, { term, member, isSet }: Variable, value: Value): void {
  const [record = ""] = pathTo(term);
  const usual = optionalRecords.get(record);
  if (value !== undefined && usual !== undefined && !Object.hasOwn(question, record)) place(question, record, usual());
  if (term === record && usual !== undefined) {
    if (value === undefined) remove(question, term);
  } else if (member !== undefined) {
    const set = placed(question, term) as readonly string[] | undefined;
    if (value === true) place(question, term, [...new Set([...(set ?? []), member])]);
    else if (set !== undefined)
      place(
        question,
        term,
        set.filter((each) => each !== member),
      );
  } else if (value === undefined) remove(question, term);
  else if (isSet !== true) place(question, term, value);
  else if (placed(question, term) === undefined) place(question, term, []);
}

/** Optional records of a question, with unremarkable content. */
const optionalRecords: ReadonlyMap<string, () => object> = new Map<string, () => object>([
  ["registered", () => ({ resource: { kind: usualText } })],
  ["on_behalf_of", () => ({ type: usualText, id: usualText })],
]);

/** The set of obligations that the caller understands, which no policy reads. */
export const understood = "understood_obligations";

const inputs = inputCatalogue({});

/** Path of the input in a question. */
function pathTo(term: string): readonly string[] {
  const [, attribute] = /^caller\.attributes\.(.*)$/s.exec(term) ?? [];
  if (attribute !== undefined) return ["principal", "attributes", attribute];
  if (term === "caller.tenant_id") return ["tenant"];
  const { of, key } = inputs.tagOf(term) ?? { of: inputs.inputs.find(({ name }) => name === term) };
  if (of === undefined) return [term];
  return [...of.path.replace(/^context\./, "").split("."), ...(key === undefined ? [] : [key])];
}

/** Sets the named input in the question. */
export function place(question: object, term: string, value: unknown): void {
  const path = pathTo(term);
  let at = question as Record<string, unknown>;
  for (const name of path.slice(0, -1)) {
    if (!Object.hasOwn(at, name))
      Object.defineProperty(at, name, { value: {}, enumerable: true, configurable: true, writable: true });
    at = at[name] as Record<string, unknown>;
  }
  // No name is special, not even `__proto__`.
  Object.defineProperty(at, path.at(-1) as string, { value, enumerable: true, configurable: true, writable: true });
}

function remove(question: object, term: string): void {
  const path = pathTo(term);
  const owner = path.slice(0, -1).reduce<unknown>((at, name) => memberOf(at, name), question);
  if (typeof owner === "object" && owner !== null) delete (owner as Record<string, unknown>)[path.at(-1) as string];
}

function memberOf(of: unknown, name: string): unknown {
  return typeof of === "object" && of !== null && Object.hasOwn(of, name)
    ? (of as Record<string, unknown>)[name]
    : undefined;
}

function placed(question: object, term: string): unknown {
  return pathTo(term).reduce<unknown>((at, name) => memberOf(at, name), question);
}

/** Converts the question for a bundle, with its declared attributes. Undefined if no request can ask it. */
export function queryFor(
  bundle: Pick<DeclaredInputs, "callerAttributes">,
  question: WrittenQuestion,
): PolicyQuery | undefined {
  const { callerAttributes = {} } = bundle;
  const given = (question.principal.attributes ?? {}) as Readonly<Record<string, unknown>>;
  const attributes = Object.fromEntries(
    Object.entries(callerAttributes).flatMap(([name, { type, required }]) => {
      if (Object.hasOwn(given, name)) return [[name, given[name]]];
      return required ? [[name, usual[type]]] : [];
    }),
  );
  const { attributes: _, ...principal } = question.principal;
  const hasAttributes = Object.keys(callerAttributes).length > 0;
  try {
    return parseQuery({ ...question, principal: { ...principal, ...(hasAttributes && { attributes }) } });
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** Adds the attributes that either bundle requires of callers, so that the question can be asked unchanged. */
export function askable(
  bundles: readonly Pick<DeclaredInputs, "callerAttributes">[],
  question: WrittenQuestion,
): WrittenQuestion {
  const declared = bundles.flatMap(({ callerAttributes = {} }) => Object.entries(callerAttributes));
  const required = declared.flatMap(([name, { type, required }]) => (required ? [[name, usual[type]] as const] : []));
  if (required.length === 0) return question;
  const given = question.principal.attributes as Readonly<Record<string, unknown>> | undefined;
  const attributes = { ...Object.fromEntries(required), ...given };
  return { ...question, principal: { ...question.principal, attributes } };
}

const usual = { text: usualText, set_of_text: [], whole_number: 0, yes_no: false } as const;

/** Required members of a question. */
const needed: ReadonlySet<string> = new Set(["tenant", "principal", "action", "claimed"]);

/** Removes parts of the question for which `holds` stays true. */
export function simplified(question: WrittenQuestion, holds: (question: WrittenQuestion) => boolean): WrittenQuestion {
  let simplest = question;
  for (const path of pathsIn(question, [])) {
    if (path.length === 1 && needed.has(path[0] as string)) continue;
    for (const value of simplerThan(path, valueIn(simplest, path))) {
      const simpler = changed(simplest, path, value) as WrittenQuestion;
      if (isDeepStrictEqual(simpler, simplest) || !holds(simpler)) continue;
      simplest = simpler;
      break;
    }
  }
  return simplest;
}

/** The outer ones first. */
function pathsIn(value: unknown, path: readonly string[]): readonly (readonly string[])[] {
  const record = Array.isArray(value) ? {} : (recordOf(value) ?? {});
  return Object.entries(record).flatMap(([name, member]) => [[...path, name], ...pathsIn(member, [...path, name])]);
}

function valueIn(from: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>((at, name) => memberOf(at, name), from);
}

/** The simplest first: absent, unremarkable, then a part of a set. */
function simplerThan([first]: readonly string[], value: unknown): readonly unknown[] {
  if (value === undefined || first === undefined) return [];
  if (typeof value === "string") return [undefined, usualText];
  if (typeof value === "number") return [undefined, 0];
  if (Array.isArray(value)) return [undefined, [], ...value.map((member) => [member])];
  return [undefined];
}

function changed(from: unknown, [name, ...rest]: readonly string[], value: unknown): unknown {
  if (name === undefined) return value;
  const members = Object.entries(recordOf(from) ?? {}).flatMap(([own, member]) => {
    const next = own === name ? changed(member, rest, value) : member;
    return next === undefined ? [] : [[own, next] as const];
  });
  return Object.fromEntries(members);
}

function recordOf(value: unknown): Readonly<Record<string, unknown>> | undefined {
  return typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>) : undefined;
}
