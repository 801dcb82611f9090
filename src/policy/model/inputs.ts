/**
 * The one mapping from a query to policy inputs. `cedar-request.ts` puts them into Cedar's form.
 *
 * | as policies read it                             | comes from                                   | name in `inputs`         |
 * |-------------------------------------------------|----------------------------------------------|--------------------------|
 * | `principal.tenant`                              | credentials                                  | `caller.tenant_id`       |
 * | `principal.principal_id`                        | credentials                                  | `caller.principal_id`    |
 * | `principal.subject`                             | credentials                                  | `caller.subject`         |
 * | `principal.scopes`                              | credentials                                  | `caller.scopes`          |
 * | `principal.auth_source`                         | credentials                                  | `caller.auth_source`     |
 * | `principal` itself: `Principal::"tenant/id"`    | credentials                                  | the first two            |
 * | `principal.<name>` of a declared attribute      | credentials; ? if it is not required         | `caller.attributes.<name>` |
 * | `action`                                        | the operation and the route                  | (always)                 |
 * | `resource`: always `Resource::"claimed"`        | nothing                                      | (none)                   |
 * | `context.claimed.workload.application`          | body                                         | `workload.application`   |
 * | `context.claimed.workload.environment` ?        | body                                         | `workload.environment`   |
 * | `context.claimed.workload.component` ?          | body                                         | `workload.component`     |
 * | `context.claimed.resource.kind`                 | body                                         | `resource.kind`          |
 * | `context.claimed.resource.id` ?                 | body                                         | `resource.id`            |
 * | `context.claimed.resource.mime_type` ?          | body                                         | `resource.mime_type`     |
 * | `context.claimed.purpose` ?                     | body                                         | `purpose`                |
 * | `context.claimed.labels`, a set                 | body                                         | `labels`                 |
 * | `context.claimed.attributes.getTag("region")`   | body; guard it with `hasTag`                 | `attributes.region`      |
 * | `context.claimed.artifact_profile` ?            | body                                         | `artifact_profile`       |
 * | `context.claimed.content_digest_present`        | whether the body has a digest                | `content_digest_present` |
 * | `context.claimed.content_size_bytes` ?          | body                                         | `content_size_bytes`     |
 * | `context.claimed.key_reference` ?               | body                                         | `key_reference`          |
 * | `context.registered` itself ?                   | whether the ledger knows the artifact        | `registered`             |
 * | `context.registered.labels`, a set              | ledger                                       | `registered.labels`      |
 * | `context.registered.labels_ever`, a set         | ledger                                       | `registered.labels_ever` |
 * | `context.registered.attributes.getTag("owner")` | ledger; guard it with `hasTag`               | `registered.attributes.owner` |
 * | `context.registered.resource.kind`              | ledger                                       | `registered.resource.kind` |
 * | `context.registered.resource.id` ?              | ledger                                       | `registered.resource.id` |
 * | `context.registered.artifact_profile`           | ledger                                       | `registered.artifact_profile` |
 * | `context.registered.key_reference` ?            | ledger                                       | `registered.key_reference` |
 * | `context.registered.application`                | ledger                                       | `registered.application` |
 * | `context.registered.principal`                  | ledger                                       | `registered.principal`   |
 * | `context.registered.citation_matched`           | ledger                                       | `registered.citation_matched` |
 * | `context.registered.registered_at`              | ledger, in milliseconds                      | `registered.registered_at` |
 * | `context.on_behalf_of` itself ?                 | whether there is another subject             | `on_behalf_of`           |
 * | `context.on_behalf_of.type`, `.id`              | body                                         | `on_behalf_of.type`, `on_behalf_of.id` |
 * | `context.on_behalf_of.properties.getTag("role")` | body; guard it with `hasTag`                | `on_behalf_of.properties.role` |
 * | `context.on_behalf_of.property_values`, a set   | body, each as `name=value`                   | `on_behalf_of.property_values` |
 *
 * What the organisation knows (`entity-references.ts`) is at further paths, made of these inputs and of nothing else
 * that changes while a revision is in force.
 *
 * `?` marks what may be absent: a policy must test `has` first, or it does not type-check. Attributes of a request are
 * tags of an entity of their own, because a Cedar record has fixed members; so no attribute can pose as another input,
 * and labels, being a set of their own, can pose as none.
 */
import type { AttributeDeclarations, AttributeType } from "../../base/caller-attributes.ts";
import type { OnBehalfOf, PolicyQuery, Registered } from "./decision.ts";
import { type EntityReference, entityReferences } from "./entity-references.ts";
import type { DeclaredEntities } from "./entity-types.ts";

/** What a bundle declares about the inputs of its policies. Absent if nothing. */
export interface DeclaredInputs {
  /** Attributes of the caller, by name. */
  readonly callerAttributes?: AttributeDeclarations;
  /** Entities of the organisation. */
  readonly entities?: DeclaredEntities;
}

/** Type of an input. Tags are texts with arbitrary names; a record is the presence of an optional record. */
export type InputKind = AttributeType | "tags" | "record";

/** Value of an input, normalized: sets and tags are sorted and without duplicates. */
export type InputValue =
  | string
  | number
  | boolean
  | undefined
  | readonly string[]
  | readonly (readonly [string, string])[];

/** An input with a fixed name. */
export interface Input {
  /** Path under which policies read it. */
  readonly path: string;
  readonly name: string;
  readonly kind: InputKind;
  readonly optional: boolean;
  /** Its value in the query. It has the input's kind only if the query was made for it: see `input-types.ts`. */
  readonly value: (query: PolicyQuery) => unknown;
}

/** The inputs that policies of a bundle can read. */
export class InputCatalogue {
  readonly inputs: readonly Input[];
  /** The same, grouped by the optional record that contains them; `always` are in none. */
  readonly always: readonly Input[];
  readonly ofRegistered: readonly Input[];
  readonly ofOnBehalfOf: readonly Input[];
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
    this.ofRegistered = inputs.filter(({ name }) => readsRegistered([name]));
    this.ofOnBehalfOf = inputs.filter(({ name }) => readsOnBehalfOf([name]));
    this.always = inputs.filter(({ name }) => !readsRegistered([name]) && !readsOnBehalfOf([name]));
    this.references = references;
    this.refersToPrincipals = refersToPrincipals;
    this.names = inputs.map(({ name }) => name);
    this.tags = inputs.filter(({ kind }) => kind === "tags");
    this.#byName = new Map(inputs.map((input) => [input.name, input]));
  }

  /** Names of the inputs at a path or below it, and of those behind references there. Empty if unknown. */
  namesAt(path: string): readonly string[] {
    const here = this.inputs.filter((input) => input.path === path || input.path.startsWith(`${path}.`)).map(nameOf);
    return [...here, ...this.referencesAt(path).flatMap(({ reads }) => reads)];
  }

  /** References at a path or below it, and the one that the path goes through. */
  referencesAt(path: string): readonly EntityReference[] {
    return this.references.filter((it) => `${it.path}.`.startsWith(`${path}.`) || path.startsWith(`${it.path}.`));
  }

  /** Name of the optional record at the path; undefined if there is none. */
  recordAt(path: string): string | undefined {
    return this.inputs.find((input) => input.kind === "record" && input.path === path)?.name;
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
      value: ({ caller: { attributes } }) =>
        attributes !== undefined && Object.hasOwn(attributes, name) ? attributes[name] : undefined,
    }),
  );
  const refersToPrincipals = /\bPrincipal\b/.test(entities?.schema ?? "");
  return new InputCatalogue([...builtIn, ...declared], entityReferences(entities), refersToPrincipals);
}

type Row = readonly [path: string, name: string, kind: InputKind, value: Input["value"]];

function inputOf([path, name, kind, value]: Row): Input {
  const isOptional = path.endsWith("?");
  return { path: isOptional ? path.slice(0, -1) : path, name, kind, optional: isOptional, value };
}

/** Name of an optional record, which prefixes the names of its inputs. */
const registeredName = "registered";
export const onBehalfOfName = "on_behalf_of";

/** As in the table above; `?` at the end of a path marks optional inputs. */
const rows: readonly Row[] = [
  ["principal.tenant", "caller.tenant_id", "text", ({ caller }) => caller.tenantId],
  ["principal.principal_id", "caller.principal_id", "text", ({ caller }) => caller.principalId],
  ["principal.subject", "caller.subject", "text", ({ caller }) => caller.subject],
  ["principal.scopes", "caller.scopes", "set_of_text", ({ caller }) => caller.scopes],
  ["principal.auth_source", "caller.auth_source", "text", ({ caller }) => caller.authSource],
  ...claimedRows(),
  ...registeredRows(),
  ...onBehalfOfRows(),
];

export function readsRegistered(names: readonly string[]): boolean {
  return readsRecord(registeredName, names);
}

export function readsOnBehalfOf(names: readonly string[]): boolean {
  return readsRecord(onBehalfOfName, names);
}

function readsRecord(record: string, names: readonly string[]): boolean {
  return names.some((name) => name === record || name.startsWith(`${record}.`));
}

/** All members are absent with their record. A required one that is missing from a present record has no type: null. */
function memberOf<Record>(name: string, recordOf: (query: PolicyQuery) => Record | undefined) {
  return (path: string, kind: InputKind, read: (record: Record) => unknown): Row => [
    `context.${name}.${path.replace("?", "")}?`,
    `${name}.${path.replace("?", "")}`,
    kind,
    (query) => {
      const record = recordOf(query);
      if (record === undefined) return undefined;
      const found = read(Object(record));
      return found === undefined && !path.endsWith("?") ? null : found;
    },
  ];
}

function onBehalfOfRows(): readonly Row[] {
  const subject = memberOf<OnBehalfOf>(onBehalfOfName, ({ onBehalfOf }) => onBehalfOf);
  return [
    [`context.${onBehalfOfName}?`, onBehalfOfName, "record", ({ onBehalfOf }) => onBehalfOf],
    subject("type", "text", ({ type }) => type),
    subject("id", "text", ({ id }) => id),
    subject("properties", "tags", ({ properties }) => properties),
    subject("property_values", "set_of_text", ({ property_values }) => property_values),
  ];
}

function registeredRows(): readonly Row[] {
  const registered = memberOf<Registered>(registeredName, (query) => query.registered);
  return [
    [`context.${registeredName}?`, registeredName, "record", ({ registered }) => registered],
    registered("labels", "set_of_text", ({ labels }) => labels),
    registered("labels_ever", "set_of_text", ({ labels_ever }) => labels_ever),
    registered("attributes", "tags", ({ attributes }) => attributes),
    registered("resource.kind", "text", ({ resource }) => resource?.kind),
    registered("resource.id?", "text", ({ resource }) => resource?.id),
    registered("artifact_profile", "text", ({ artifact_profile }) => artifact_profile),
    registered("key_reference?", "text", ({ key_reference }) => key_reference),
    registered("application", "text", ({ application }) => application),
    registered("principal", "text", ({ principal }) => principal),
    registered("citation_matched", "yes_no", ({ citation_matched }) => citation_matched),
    registered("registered_at", "whole_number", ({ registered_at }) => registered_at),
  ];
}

function claimedRows(): readonly Row[] {
  const claimed = (path: string, kind: InputKind, read: (claimed: PolicyQuery["claimed"]) => unknown): Row => [
    `context.claimed.${path}`,
    path.replace("?", ""),
    kind,
    (query) => read(query.claimed),
  ];
  return [
    claimed("workload.application", "text", ({ workload }) => workload.application),
    claimed("workload.environment?", "text", ({ workload }) => workload.environment),
    claimed("workload.component?", "text", ({ workload }) => workload.component),
    claimed("resource.kind", "text", ({ resource }) => resource.kind),
    claimed("resource.id?", "text", ({ resource }) => resource.id),
    claimed("resource.mime_type?", "text", ({ resource }) => resource.mime_type),
    claimed("purpose?", "text", ({ purpose }) => purpose),
    claimed("labels", "set_of_text", ({ labels }) => labels),
    claimed("attributes", "tags", ({ attributes }) => attributes),
    claimed("artifact_profile?", "text", ({ artifact_profile }) => artifact_profile),
    claimed("content_digest_present", "yes_no", ({ content_digest_present }) => content_digest_present),
    claimed("content_size_bytes?", "whole_number", ({ content_size_bytes }) => content_size_bytes),
    claimed("key_reference?", "text", ({ key_reference }) => key_reference),
  ];
}

const builtIn: readonly Input[] = rows.map(inputOf);

/** Built-in members of the principal, whose names no declared attribute may take. */
export const principalMembers: readonly string[] = builtIn
  .filter(({ path }) => path.startsWith("principal."))
  .map(({ path }) => path.slice("principal.".length));

function nameOf({ name }: Input): string {
  return name;
}

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
