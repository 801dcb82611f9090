/** The question that an assignment of variables asks, as operators write it and as a bundle is asked it. */

import type { Value, Variable } from "../diff/variables.ts";
import type { PolicyQuery } from "../engine/decision.ts";
import type { PolicyBundle } from "../load/bundle.ts";
import { parseQuery } from "../tools/query.ts";

/** Members of a question as operators write it; see `tools/query.ts`. */
export interface WrittenQuestion {
  readonly tenant: string;
  readonly principal: Readonly<Record<string, unknown>>;
  readonly action: string;
  readonly claimed: Readonly<Record<string, unknown>>;
  readonly registered?: Readonly<Record<string, unknown>>;
  readonly on_behalf_of?: Readonly<Record<string, unknown>>;
  readonly understood_obligations?: readonly string[];
}

/** The question that an assignment asks; variables that it does not name have their first values. */
export function questionOf(
  variables: readonly Variable[],
  assignment: ReadonlyMap<number, Value>,
  tenant: string,
  action: string,
): WrittenQuestion {
  const question = {
    tenant,
    principal: {} as Record<string, unknown>,
    action,
    claimed: { workload: { application: "anything-else" }, resource: { kind: "anything-else" } },
  };
  const absent = new Set<string>();
  for (const [record, usual] of optionalRecords) {
    if (variables.some(({ term }) => term === record)) place(question, record, usual());
  }
  for (const [index, { term, member, isSet, values }] of variables.entries()) {
    const value = assignment.has(index) ? assignment.get(index) : values[0];
    if (member === undefined) {
      if (value === undefined) absent.add(term);
      else if (optionalRecords.has(term)) continue;
      // That a set is there; its members follow.
      else place(question, term, isSet ? [] : value);
    } else if (!absent.has(term)) {
      const set = (placed(question, term) as readonly string[] | undefined) ?? [];
      place(question, term, value === true ? [...set, member] : set);
    }
  }
  const there = Object.entries(question).filter(([name]) => !(optionalRecords.has(name) && absent.has(name)));
  return Object.fromEntries(there) as unknown as WrittenQuestion;
}

/** Records that a question need not have, with what it says where it has one that no policy speaks of. */
const optionalRecords: ReadonlyMap<string, () => object> = new Map<string, () => object>([
  ["registered", () => ({ resource: { kind: "anything-else" } })],
  ["on_behalf_of", () => ({ type: "anything-else", id: "anything-else" })],
]);

/** The set of obligations that the caller understands, which no policy reads. */
export const understood = "understood_obligations";

/** Where a question has the input. */
function pathTo(term: string): readonly string[] {
  const [, attribute] = /^caller\.attributes\.(.*)$/s.exec(term) ?? [];
  if (attribute !== undefined) return ["principal", "attributes", attribute];
  const [, of = "", tag] = /^(registered\.)?attributes\.(.*)$/s.exec(term) ?? [];
  if (tag !== undefined) return [of === "" ? "claimed" : "registered", "attributes", tag];
  const [, property] = /^on_behalf_of\.properties\.(.*)$/s.exec(term) ?? [];
  if (property !== undefined) return ["on_behalf_of", "properties", property];
  if (term === understood || /^(?:registered|on_behalf_of)(?:\.|$)/.test(term)) return term.split(".");
  if (term === "caller.tenant_id") return ["tenant"];
  return term.startsWith("caller.") ? ["principal", term.slice("caller.".length)] : ["claimed", ...term.split(".")];
}

/** Says in the question what the input is, by the name of it. */
export function place(question: object, term: string, value: unknown): void {
  const path = pathTo(term);
  let at = question as Record<string, unknown>;
  for (const name of path.slice(0, -1)) {
    if (!Object.hasOwn(at, name))
      Object.defineProperty(at, name, { value: {}, enumerable: true, configurable: true, writable: true });
    at = at[name] as Record<string, unknown>;
  }
  // No name is special, `__proto__` neither.
  Object.defineProperty(at, path.at(-1) as string, { value, enumerable: true, configurable: true, writable: true });
}

function placed(question: object, term: string): unknown {
  let at: unknown = question;
  for (const name of pathTo(term)) {
    if (at === undefined || !Object.hasOwn(at as object, name)) return undefined;
    at = (at as Record<string, unknown>)[name];
  }
  return at;
}

/**
 * The question as a bundle is asked it: with the attributes of the caller that it declares. Undefined where no request asks
 * it.
 */
export function queryFor(
  bundle: Pick<PolicyBundle, "callerAttributes">,
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

/** The question with the attributes that callers must have by any of the bundles, so that it can be asked as it stands. */
export function askable(
  bundles: readonly Pick<PolicyBundle, "callerAttributes">[],
  question: WrittenQuestion,
): WrittenQuestion {
  const declared = bundles.flatMap(({ callerAttributes = {} }) => Object.entries(callerAttributes));
  const required = declared.flatMap(([name, { type, required }]) => (required ? [[name, usual[type]] as const] : []));
  if (required.length === 0) return question;
  const given = question.principal.attributes as Readonly<Record<string, unknown>> | undefined;
  const attributes = { ...Object.fromEntries(required), ...given };
  return { ...question, principal: { ...question.principal, attributes } };
}

const usual = { text: "anything-else", set_of_text: [], whole_number: 0, yes_no: false } as const;
