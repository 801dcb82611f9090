/** The inputs that the policies of a bundle can read: those of the table, and the declared ones. */
import type { AttributeDeclarations, Caller } from "../../base/caller.ts";
import { isObject } from "../../base/json.ts";
import type { PolicyQuery } from "./decision.ts";
import { type DeclaredEntities, type EntityReference, entityReferences } from "./entities.ts";
import {
  claimedRows,
  isRow,
  onBehalfOfRows,
  principalRows,
  type Row,
  type Rows,
  registeredRows,
  type ValueKind,
} from "./input-table.ts";

/** What a bundle declares about the inputs of its policies. Absent if nothing. */
export interface DeclaredInputs {
  /** Attributes of the caller, by name. */
  readonly callerAttributes?: AttributeDeclarations;
  /** Entities of the organisation. */
  readonly entities?: DeclaredEntities;
}

/** Type of an input; a record is the presence of an optional record. */
export type InputKind = ValueKind | "record";

/** Value of an input, normalized: sets and tags are sorted and without duplicates. */
export type InputValue =
  | string
  | number
  | boolean
  | undefined
  | readonly string[]
  | readonly (readonly [string, string])[];

type Read = (query: PolicyQuery) => unknown;

/** An input with a fixed name. */
export interface Input extends Pick<Row, "words" | "least" | "mayBeEmpty" | "option"> {
  /** Path under which policies read it. */
  readonly path: string;
  /** Name in `inputs` of a decision. */
  readonly name: string;
  readonly kind: InputKind;
  readonly optional: boolean;
  /** Whether it is optional only because its record is. */
  readonly comesWithRecord?: true;
  /** Its value in the query. It has the input's kind only if the query was made for it: see `hasSchemaTypes`. */
  readonly value: Read;
}

/** The inputs that policies of a bundle can read. */
export class InputCatalogue {
  readonly inputs: readonly Input[];
  /** Names of all inputs. That of tags stands for all of them. */
  readonly names: readonly string[];
  /** Inputs that are tags. A single tag has the name of the input, a dot, and its own. */
  readonly tags: readonly Input[];
  /** Paths at which policies read referenced entities. */
  readonly references: readonly EntityReference[];
  readonly #byName: ReadonlyMap<string, Input>;

  /** Whether entities may refer to principals, so that what is read through them depends on who asks. */
  readonly refersToPrincipals: boolean;

  constructor(inputs: readonly Input[], references: readonly EntityReference[], refersToPrincipals = false) {
    this.inputs = inputs;
    this.references = references;
    this.refersToPrincipals = refersToPrincipals;
    this.names = inputs.map(({ name }) => name);
    this.tags = inputs.filter(({ kind }) => kind === "tags");
    this.#byName = new Map(inputs.map((input) => [input.name, input]));
  }

  /** Names of the inputs at a path or below it, and of those behind references there. Empty if unknown. */
  namesAt(path: string): readonly string[] {
    const here = this.inputs.filter((input) => input.path === path || input.path.startsWith(`${path}.`));
    return [...here.map(({ name }) => name), ...this.referencesAt(path).flatMap(({ reads }) => reads)];
  }

  /** References at a path or below it, and the one that the path goes through. */
  referencesAt(path: string): readonly EntityReference[] {
    return this.references.filter((it) => `${it.path}.`.startsWith(`${path}.`) || path.startsWith(`${it.path}.`));
  }

  /** The input at the path; undefined if there is none. */
  inputAt(path: string | undefined): Input | undefined {
    return this.inputs.find((input) => input.path === path);
  }

  /** Reads the named input from a query. Throws a TypeError for an unknown name. */
  reader(name: string): (query: PolicyQuery) => InputValue {
    const input = this.#byName.get(name);
    if (input !== undefined) return readerOf(input);
    const tag = this.tagOf(name);
    if (tag === undefined) throw new TypeError(`no input has the name ${name}`);
    const { key, of } = tag;
    return (query) => {
      const tags = of.value(query) as Readonly<Record<string, string>> | undefined;
      return tags !== undefined && Object.hasOwn(tags, key) ? tags[key] : undefined;
    };
  }

  /** The tag with the name; undefined if the name is not a single tag's. */
  tagOf(name: string): { readonly of: Input; readonly key: string } | undefined {
    const of = this.#byName.has(name) ? undefined : this.tags.find((tags) => name.startsWith(`${tags.name}.`));
    return of && { of, key: name.slice(of.name.length + 1) };
  }
}

/** The built-in inputs and the declared ones. */
export function inputCatalogue({ callerAttributes = {}, entities }: DeclaredInputs): InputCatalogue {
  const declared = Object.entries(callerAttributes).map(
    ([name, { type, required }]): Input => ({
      path: `principal.${name}`,
      name: `caller.attributes.${name}`,
      kind: type,
      optional: !required,
      mayBeEmpty: true,
      value: ({ caller: { attributes } }) =>
        attributes !== undefined && Object.hasOwn(attributes, name) ? attributes[name] : undefined,
    }),
  );
  const refersToPrincipals = /\bPrincipal\b/.test(entities?.schema ?? "");
  return new InputCatalogue([...builtIn, ...declared], entityReferences(entities), refersToPrincipals);
}

/** Name of an optional record, which prefixes the names of its inputs. */
const registeredName = "registered";
export const onBehalfOfName = "on_behalf_of";

export function readsRegistered(names: readonly string[]): boolean {
  return readsRecord(registeredName, names);
}

export function readsOnBehalfOf(names: readonly string[]): boolean {
  return readsRecord(onBehalfOfName, names);
}

function readsRecord(record: string, names: readonly string[]): boolean {
  return names.some((name) => name === record || name.startsWith(`${record}.`));
}

/** Where the caller has its facts. */
const ofCaller: Readonly<Record<keyof typeof principalRows, (caller: Caller) => unknown>> = {
  tenant: ({ tenantId }) => tenantId,
  principal_id: ({ principalId }) => principalId,
  subject: ({ subject }) => subject,
  scopes: ({ scopes }) => scopes,
  auth_source: ({ authSource }) => authSource,
};

function principalInputs(): readonly Input[] {
  return inputsOf(principalRows, "principal.", "caller.", () => undefined).map((input) => {
    const member = input.path.slice("principal.".length) as keyof typeof principalRows;
    const name = member === "tenant" ? "caller.tenant_id" : input.name;
    return { ...input, name, value: ({ caller }) => ofCaller[member](caller) };
  });
}

/** Inputs of the rows of a record. */
function inputsOf(rows: Rows, path: string, prefix: string, recordOf: Read): readonly Input[] {
  return Object.entries(rows).flatMap(([own, row]): readonly Input[] => {
    const value: Read = (query) => (recordOf(query) as Readonly<Record<string, unknown>> | null | undefined)?.[own];
    if (!isRow(row)) return inputsOf(row, `${path}${own}.`, `${prefix}${own}.`, value);
    return [{ ...row, path: path + own, name: prefix + own, optional: row.optional ?? false, value }];
  });
}

/** All members are absent with their record. A required one that is missing from a present record has no type: null. */
function optionalRecord(name: string, rows: Rows, recordOf: Read): readonly Input[] {
  const path = `context.${name}`;
  const members = inputsOf(rows, `${path}.`, `${name}.`, recordOf).map((input): Input => {
    if (input.optional) return input;
    const value: Read = (query) => (recordOf(query) === undefined ? undefined : (input.value(query) ?? null));
    return { ...input, optional: true, comesWithRecord: true, value };
  });
  return [{ path, name, kind: "record", optional: true, value: recordOf }, ...members];
}

const builtIn: readonly Input[] = [
  ...principalInputs(),
  ...inputsOf(claimedRows, "context.claimed.", "", ({ claimed }) => claimed),
  ...optionalRecord(registeredName, registeredRows, ({ registered }) => registered),
  ...optionalRecord(onBehalfOfName, onBehalfOfRows, ({ onBehalfOf }) => onBehalfOf),
];

/** Built-in members of the principal, whose names no declared attribute may take. */
export const principalMembers: readonly string[] = Object.keys(principalRows);

function readerOf({ kind, value }: Input): (query: PolicyQuery) => InputValue {
  if (kind === "record") return (query) => value(query) !== undefined;
  if (kind === "set_of_text") return (query) => asSet(value(query) as readonly string[] | undefined);
  if (kind === "tags") return (query) => asEntries(value(query) as Readonly<Record<string, string>> | undefined);
  return (query) => value(query) as InputValue;
}

function asSet(values: readonly string[] | undefined): readonly string[] | undefined {
  if (values === undefined || isAscending(values)) return values;
  return [...new Set(values)].sort();
}

function isAscending(values: readonly string[]): boolean {
  for (let at = 1; at < values.length; at++) if ((values[at - 1] as string) >= (values[at] as string)) return false;
  return true;
}

function asEntries(
  record: Readonly<Record<string, string>> | undefined,
): readonly (readonly [string, string])[] | undefined {
  return record && Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1));
}

/**
 * Checks a query's values against the types of the schema. Cedar could check every request, for a third of the cost of
 * a decision; a test compares this with Cedar's own validation. Checks every input, including those that no policy
 * reads, and ignores members that are not inputs.
 */
export function hasSchemaTypes(query: PolicyQuery, { inputs }: InputCatalogue): boolean {
  for (const { kind, optional, value } of inputs) {
    const found = value(query);
    if (found === undefined ? !optional : !checks[kind](found)) return false;
  }
  return true;
}

const checks: Readonly<Record<InputKind, (value: unknown) => boolean>> = {
  text: isText,
  set_of_text: areTexts,
  whole_number: isLong,
  yes_no: (value) => typeof value === "boolean",
  tags: (value) => isObject(value) && Object.entries(value).every(areTexts),
  record: isObject,
};

/** A lone surrogate cannot be written as UTF-8. */
function isText(value: unknown): boolean {
  return typeof value === "string" && value.isWellFormed();
}

/** Not `every`, which skips holes. */
function areTexts(values: unknown): boolean {
  if (!Array.isArray(values)) return false;
  for (const value of values) if (!isText(value)) return false;
  return true;
}

/** A 64-bit signed integer that survives JSON. Not -2^63: `JSON.stringify` writes it as ...776000, out of range. */
function isLong(value: unknown): boolean {
  return Number.isInteger(value) && (value as number) > -(2 ** 63) && (value as number) < 2 ** 63;
}
