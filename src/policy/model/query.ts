/**
 * Questions in the form that operators write, in tests and for explanations: `tenant`, `principal` (optional, as are
 * its members), `action`, `claimed`, `registered`, `on_behalf_of` and `understood_obligations` (the last three
 * optional).
 */
import { parseDocument } from "yaml";
import { type AttributeValues, anyAttributeValue, type Caller } from "../../base/caller.ts";
import { parsePrincipalId, parseTenantId } from "../../base/ids.ts";
import { isObject } from "../../base/json.ts";
import type { OnBehalfOf, PolicyQuery, Registered } from "./decision.ts";
import {
  claimedRows,
  isRow,
  onBehalfOfRows,
  principalRows,
  type RecordOf,
  type Row,
  type Rows,
  registeredRows,
  type ValueKind,
} from "./input-table.ts";
import { policyActions } from "./schema.ts";

/** Members of a question; readers refuse unknown ones. */
export const queryMembers: readonly string[] = [
  ...["tenant", "principal", "action", "claimed", "registered", "on_behalf_of", "understood_obligations"],
];

/** A question as it is written. */
export interface WrittenQuestion {
  readonly tenant: string;
  readonly principal: Readonly<Record<string, unknown>>;
  readonly action: string;
  readonly claimed: Readonly<Record<string, unknown>>;
  readonly registered?: Readonly<Record<string, unknown>>;
  readonly on_behalf_of?: Readonly<Record<string, unknown>>;
  readonly understood_obligations?: readonly string[];
}

/** Parses a question from its members; ignores others. Throws a RangeError that describes the problem. */
export function parseQuery(question: Members): PolicyQuery {
  const { tenant, principal, action, claimed, registered, on_behalf_of, understood_obligations } = question;
  const understoodObligations = optional(understood_obligations, (ids) => strings(ids, "understood_obligations"));
  return {
    ...(registered !== undefined && { registered: parseRegistered(registered) }),
    ...(on_behalf_of !== undefined && { onBehalfOf: parseOnBehalfOf(on_behalf_of) }),
    caller: parseCaller(tenant, principal),
    action: oneOf(policyActions, action, "action"),
    claimed: parseRecord(claimedRows, claimed, "claimed"),
    ...(understoodObligations !== undefined && { understoodObligations }),
  };
}

/** Parses a question from JSON or YAML. Throws a RangeError that describes the problem. */
export function parseQueryText(text: string): PolicyQuery {
  return parseQuery(members(valueIn(text), "a question", queryMembers));
}

/**
 * Parses one question or a list of them from JSON or YAML; names and expectations of tests are ignored. Throws a
 * RangeError that describes the problem.
 */
export function parseQueriesText(text: string): readonly PolicyQuery[] {
  const given = [valueIn(text) ?? []].flat() as readonly unknown[];
  return given.map((item) => parseQuery(members(item, "a question", ["name", ...queryMembers, "expect"])));
}

function valueIn(text: string): unknown {
  const document = parseDocument(text, { prettyErrors: false });
  const [error] = document.errors;
  if (error !== undefined) throw new RangeError(`is neither JSON nor YAML: ${error.message}`);
  return document.toJS();
}

function parseCaller(tenant: unknown, value: unknown): Caller {
  const { tenant: _, ...rows } = principalRows;
  const { attributes: given, ...principal } = members(value ?? {}, "principal", [...Object.keys(rows), "attributes"]);
  const { principal_id, auth_source, subject, scopes } = parseRecord(rows, principal, "principal");
  const tenantId = parseTenantId(string(tenant, "tenant"));
  const principalId = parsePrincipalId(principal_id);
  if (tenantId === undefined || principalId === undefined)
    throw new RangeError("tenant or principal_id is not a valid id");
  const attributes = optional(given, parseAttributes);
  const caller = { tenantId, principalId, subject, scopes, authSource: auth_source };
  return attributes === undefined ? caller : { ...caller, attributes };
}

function parseAttributes(value: unknown): AttributeValues {
  const values = Object.entries(members(value, "principal.attributes")).map(([name, given]) => {
    const found = anyAttributeValue(given);
    if (found === undefined)
      throw new RangeError(`principal.attributes.${name} must be text, a list of texts, a whole number, true or false`);
    return [name, found] as const;
  });
  return Object.fromEntries(values);
}

/** Every label was there once. */
function parseRegistered(value: unknown): Registered {
  const registered = parseRecord(registeredRows, value, "registered");
  return { ...registered, labels_ever: [...new Set([...registered.labels, ...registered.labels_ever])] };
}

/** `properties` become values with their names, as policies read them. */
function parseOnBehalfOf(value: unknown): OnBehalfOf {
  const subject = parseRecord(onBehalfOfRows, value, "on_behalf_of");
  const named = Object.entries(subject.properties).map(([name, text]) => `${name}=${text}`);
  return { ...subject, property_values: [...new Set([...named, ...subject.property_values])] };
}

/** Parses the members of the rows; those that are absent get the row's usual value. */
function parseRecord<R extends Rows>(rows: R, value: unknown, what: string): RecordOf<R> {
  const given = members(value, what, Object.keys(rows));
  const parsed = Object.entries(rows).flatMap(([name, row]): readonly (readonly [string, unknown])[] => {
    const at = `${what}.${name}`;
    if (!isRow(row)) return [[name, parseRecord(row, given[name], at)]];
    const usual = row.usual ?? (row.optional ? undefined : empty[row.kind]);
    const found = given[name] ?? usual ?? given[name];
    return found === undefined && row.optional ? [] : [[name, parseValue(row, found, at)]];
  });
  return Object.fromEntries(parsed) as RecordOf<R>;
}

const empty: Readonly<Partial<Record<ValueKind, unknown>>> = { set_of_text: [], tags: {} };

function parseValue({ kind, words, least, mayBeEmpty }: Row, value: unknown, what: string): unknown {
  const text = (given: unknown, of: string) => (given === "" && mayBeEmpty ? given : string(given, of));
  switch (kind) {
    case "text":
      return words === undefined ? text(value, what) : oneOf(words, value, what);
    case "set_of_text":
      return list(value, what).map((item) => text(item, `an item of ${what}`));
    case "tags":
      return parseTags(value, what);
    case "yes_no":
      if (typeof value !== "boolean") throw new RangeError(`${what} must be true or false`);
      return value;
    case "whole_number": {
      const isWhole = Number.isSafeInteger(value) && (least === undefined || Number(value) >= least);
      if (!isWhole) throw new RangeError(`${what} must be an integer${least === undefined ? "" : ` from ${least}`}`);
      return value;
    }
  }
}

/** Values of attributes may be empty. */
function parseTags(value: unknown, what: string): Readonly<Record<string, string>> {
  const tags = Object.entries(members(value, what));
  return Object.fromEntries(tags.map(([key, text]) => [key, text === "" ? text : string(text, `${what}.${key}`)]));
}

/** Parsers of what a person wrote. Each returns the typed value, or throws a RangeError with the reason. */
type Members = Readonly<Record<string, unknown>>;

export function members(value: unknown, what: string, known?: readonly string[]): Members {
  if (!isObject(value)) throw new RangeError(`${what} must be a map`);
  const unknown = Object.keys(value).find((name) => known !== undefined && !known.includes(name));
  if (unknown !== undefined)
    throw new RangeError(`${what} has an unknown member ${unknown}; known: ${known?.join(", ")}`);
  return value;
}

export function string(value: unknown, what: string): string {
  if (typeof value !== "string" || value === "") throw new RangeError(`${what} must be text`);
  return value;
}

export function strings(value: unknown, what: string): readonly string[] {
  return list(value, what).map((item) => string(item, `an item of ${what}`));
}

function list(value: unknown, what: string): readonly unknown[] {
  if (!Array.isArray(value)) throw new RangeError(`${what} must be a list`);
  return value;
}

function oneOf<T extends string>(values: readonly T[], value: unknown, what: string): T {
  const found = values.find((candidate) => candidate === value);
  if (found === undefined) throw new RangeError(`${what} must be one of ${values.join(", ")}`);
  return found;
}

export function optional<T>(value: unknown, parse: (value: unknown) => T): T | undefined {
  return value === undefined ? undefined : parse(value);
}
