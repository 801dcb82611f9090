/** Questions in the form that operators write and that bundles decide, built from values of variables. */
import { isDeepStrictEqual } from "node:util";
import { isObject, objectOf } from "../../base/json.ts";
import type { PolicyQuery } from "../model/decision.ts";
import { type DeclaredInputs, inputCatalogue } from "../model/inputs.ts";
import { parseQuery, type WrittenQuestion } from "../model/query.ts";
import { usualText, type Value, type Variable } from "./terms.ts";

/** A question with only unremarkable values. */
export function usualQuestion(tenant: string, action: string): WrittenQuestion {
  const claimed = { workload: { application: usualText }, resource: { kind: usualText } };
  return { tenant, principal: {}, action, claimed };
}

/** The question in which the variables have these values. */
export function questionOf(
  assigned: readonly (readonly [Variable, Value])[],
  tenant: string,
  action: string,
): WrittenQuestion {
  const absent = new Set(assigned.flatMap(([{ term }, value]) => (value === undefined ? [term] : [])));
  return assigned.reduce(
    (question, [variable, value]) => {
      const [record = ""] = pathTo(variable.term);
      return optionalRecords.has(record) && absent.has(record) ? question : withValue(question, variable, value);
    },
    usualQuestion(tenant, action),
  );
}

/** The question with another value of one variable. */
export function withValue(question: WrittenQuestion, { term, member, isSet }: Variable, value: Value): WrittenQuestion {
  const path = pathTo(term);
  const [record = ""] = path;
  const usual = optionalRecords.get(record);
  const isAdded = value !== undefined && usual !== undefined && !Object.hasOwn(question, record);
  const asked = isAdded ? changed(question, [record], usual) : question;
  if (term === record && usual !== undefined) return value === undefined ? changed(asked, path, undefined) : asked;
  const set = valueIn(asked, path) as readonly string[] | undefined;
  if (member !== undefined && value === true) return changed(asked, path, [...new Set([...(set ?? []), member])]);
  if (member !== undefined)
    return changed(
      asked,
      path,
      set?.filter((each) => each !== member),
    );
  return changed(asked, path, value !== undefined && isSet === true ? (set ?? []) : value);
}

/** Optional records of a question, with unremarkable content. */
const optionalRecords: ReadonlyMap<string, object> = new Map<string, object>([
  ["registered", { resource: { kind: usualText } }],
  ["on_behalf_of", { type: usualText, id: usualText }],
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

/** The question with another value of the named input. */
export function placed<Question>(question: Question, term: string, value: unknown): Question {
  return changed(question, pathTo(term), value);
}

/** Converts the question for a bundle, with its declared attributes. Undefined if no request can ask it. */
export function queryFor(
  bundle: Pick<DeclaredInputs, "callerAttributes">,
  question: WrittenQuestion,
): PolicyQuery | undefined {
  const { callerAttributes = {} } = bundle;
  const { attributes: given = {}, ...principal } = askable([bundle], question).principal;
  const declared = Object.entries(given as object).filter(([name]) => Object.hasOwn(callerAttributes, name));
  const attributes = Object.fromEntries(declared);
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
      const simpler = changed(simplest, path, value);
      if (isDeepStrictEqual(simpler, simplest) || !holds(simpler)) continue;
      simplest = simpler;
      break;
    }
  }
  return simplest;
}

/** The outer ones first. */
function pathsIn(value: unknown, path: readonly string[]): readonly (readonly string[])[] {
  return Object.entries(objectOf(value)).flatMap(([name, member]) => [
    [...path, name],
    ...pathsIn(member, [...path, name]),
  ]);
}

export function valueIn(from: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>((at, name) => (isObject(at) && Object.hasOwn(at, name) ? at[name] : undefined), from);
}

/** The simplest first: absent, unremarkable, then a part of a set. */
function simplerThan([first]: readonly string[], value: unknown): readonly unknown[] {
  if (value === undefined || first === undefined) return [];
  if (typeof value === "string") return [undefined, usualText];
  if (typeof value === "number") return [undefined, 0];
  if (Array.isArray(value)) return [undefined, [], ...value.map((member) => [member])];
  return [undefined];
}

/** The same with another value at the path, and the records on the way to it; undefined removes what is there. */
function changed<Of>(from: Of, [name, ...rest]: readonly string[], value: unknown): Of {
  if (name === undefined) return value as Of;
  if (value === undefined && !isObject(from)) return from;
  // No name is special in a map, not even `__proto__`.
  const members = new Map<string, unknown>(Object.entries(objectOf(from)));
  const member = changed(members.get(name), rest, value);
  if (member === undefined) members.delete(name);
  else members.set(name, member);
  return Object.fromEntries(members) as Of;
}
