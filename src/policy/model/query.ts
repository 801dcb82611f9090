/**
 * Questions in the form that operators write, in tests and for explanations: `tenant`, `principal` (optional, as are
 * its members), `action`, `claimed`, `registered`, `on_behalf_of` and `understood_obligations` (the last three
 * optional). See `load/policy-test-file.ts`.
 */
import { parseDocument } from "yaml";
import { authSources, type Caller } from "../../base/caller.ts";
import { type AttributeValues, anyAttributeValue } from "../../base/caller-attributes.ts";
import { parsePrincipalId, parseTenantId } from "../../base/ids.ts";
import { artifactProfiles } from "../../base/vocabulary.ts";
import type { Claimed, OnBehalfOf, PolicyQuery, Registered } from "./decision.ts";
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
    claimed: parseClaimed(claimed),
    ...(understoodObligations !== undefined && { understoodObligations }),
  };
}

/** Parses a question from JSON or YAML. Throws a RangeError that describes the problem. */
export function parseQueryText(text: string): PolicyQuery {
  const document = parseDocument(text, { prettyErrors: false });
  const [error] = document.errors;
  if (error !== undefined) throw new RangeError(`is neither JSON nor YAML: ${error.message}`);
  return parseQuery(members(document.toJS(), "a question", queryMembers));
}

function parseCaller(tenant: unknown, value: unknown): Caller {
  const principal = members(value ?? {}, "principal", [
    "principal_id",
    "subject",
    "scopes",
    "auth_source",
    "attributes",
  ]);
  const tenantId = parseTenantId(string(tenant, "tenant"));
  const principalId = parsePrincipalId(string(principal.principal_id ?? "test-principal", "principal.principal_id"));
  if (tenantId === undefined || principalId === undefined)
    throw new RangeError("tenant or principal_id is not a valid id");
  const attributes = optional(principal.attributes, parseAttributes);
  return {
    tenantId,
    principalId,
    subject: string(principal.subject ?? "test-subject", "principal.subject"),
    scopes: strings(principal.scopes ?? [], "principal.scopes"),
    authSource: oneOf(authSources, principal.auth_source ?? "bearer_token", "principal.auth_source"),
    ...(attributes !== undefined && { attributes }),
  };
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

function parseClaimed(value: unknown): Claimed {
  const texts = ["purpose", "key_reference"];
  const others = ["labels", "attributes", "artifact_profile", "content_digest_present", "content_size_bytes"];
  const claimed = members(value, "claimed", ["workload", "resource", ...texts, ...others]);
  const workload = members(claimed.workload, "claimed.workload", ["application", "environment", "component"]);
  const resource = members(claimed.resource, "claimed.resource", ["kind", "id", "mime_type"]);
  const profile = optional(claimed.artifact_profile, (name) => oneOf(artifactProfiles, name, "artifact_profile"));
  const digestPresent = claimed.content_digest_present ?? false;
  if (typeof digestPresent !== "boolean") throw new RangeError("claimed.content_digest_present must be true or false");
  const size = claimed.content_size_bytes;
  if (size !== undefined && !(Number.isSafeInteger(size) && Number(size) >= 0)) {
    throw new RangeError("claimed.content_size_bytes must be an integer from 0");
  }
  return {
    workload: {
      application: string(workload.application, "claimed.workload.application"),
      ...textMembers(workload, ["environment", "component"]),
    },
    resource: {
      kind: string(resource.kind, "claimed.resource.kind"),
      ...textMembers(resource, ["id", "mime_type"]),
    },
    ...textMembers(claimed, texts),
    labels: freeTexts(claimed.labels ?? [], "claimed.labels"),
    attributes: parseTags(claimed.attributes, "claimed.attributes"),
    ...(profile !== undefined && { artifact_profile: profile }),
    content_digest_present: digestPresent,
    ...(size !== undefined && { content_size_bytes: Number(size) }),
  };
}

/** Absent members get the least specific values. */
function parseRegistered(value: unknown): Registered {
  const texts = ["key_reference", "artifact_profile", "application", "principal"];
  const others = ["labels", "labels_ever", "attributes", "resource", "citation_matched", "registered_at"];
  const registered = members(value, "registered", [...texts, ...others]);
  const resource = members(registered.resource, "registered.resource", ["kind", "id"]);
  const labels = freeTexts(registered.labels ?? [], "registered.labels");
  const ever = freeTexts(registered.labels_ever ?? [], "registered.labels_ever");
  const matched = registered.citation_matched ?? true;
  if (typeof matched !== "boolean") throw new RangeError("registered.citation_matched must be true or false");
  const at = registered.registered_at ?? 0;
  if (!Number.isSafeInteger(at)) throw new RangeError("registered.registered_at must be milliseconds since 1970");
  return {
    labels,
    labels_ever: [...new Set([...labels, ...ever])],
    attributes: parseTags(registered.attributes, "registered.attributes"),
    resource: { kind: string(resource.kind, "registered.resource.kind"), ...textMembers(resource, ["id"]) },
    artifact_profile: oneOf(artifactProfiles, registered.artifact_profile ?? "tdf", "registered.artifact_profile"),
    ...textMembers(registered, ["key_reference"]),
    application: string(registered.application ?? "test-application", "registered.application"),
    principal: string(registered.principal ?? "test-principal", "registered.principal"),
    citation_matched: matched,
    registered_at: Number(at),
  };
}

/** `properties` become values with their names, as policies read them. */
function parseOnBehalfOf(value: unknown): OnBehalfOf {
  const subject = members(value, "on_behalf_of", ["type", "id", "properties", "property_values"]);
  const properties = parseTags(subject.properties, "on_behalf_of.properties");
  const given = freeTexts(subject.property_values ?? [], "on_behalf_of.property_values");
  const named = Object.entries(properties).map(([name, text]) => `${name}=${text}`);
  return {
    type: string(subject.type, "on_behalf_of.type"),
    id: string(subject.id, "on_behalf_of.id"),
    properties,
    property_values: [...new Set([...named, ...given])],
  };
}

function parseTags(value: unknown, what: string): Readonly<Record<string, string>> {
  const tags = Object.entries(members(value ?? {}, what));
  return Object.fromEntries(tags.map(([key, value]) => [key, freeText(value, `${what}.${key}`)]));
}

/** Parsers of what a person wrote. Each returns the typed value, or throws a RangeError with the reason. */
export type Members = Readonly<Record<string, unknown>>;

export function members(value: unknown, what: string, known?: readonly string[]): Members {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new RangeError(`${what} must be a map`);
  const unknown = Object.keys(value).find((name) => known !== undefined && !known.includes(name));
  if (unknown !== undefined)
    throw new RangeError(`${what} has an unknown member ${unknown}; known: ${known?.join(", ")}`);
  return value as Members;
}

export function string(value: unknown, what: string): string {
  if (typeof value !== "string" || value === "") throw new RangeError(`${what} must be text`);
  return value;
}

/** Labels and values of attributes may be empty. */
function freeText(value: unknown, what: string): string {
  return value === "" ? value : string(value, what);
}

function freeTexts(value: unknown, what: string): readonly string[] {
  return list(value, what).map((item) => freeText(item, `an item of ${what}`));
}

export function strings(value: unknown, what: string): readonly string[] {
  return list(value, what).map((item) => string(item, `an item of ${what}`));
}

function list(value: unknown, what: string): readonly unknown[] {
  if (!Array.isArray(value)) throw new RangeError(`${what} must be a list`);
  return value;
}

export function oneOf<T extends string>(values: readonly T[], value: unknown, what: string): T {
  const found = values.find((candidate) => candidate === value);
  if (found === undefined) throw new RangeError(`${what} must be one of ${values.join(", ")}`);
  return found;
}

export function optional<T>(value: unknown, parse: (value: unknown) => T): T | undefined {
  return value === undefined ? undefined : parse(value);
}

export function textMembers(from: Members, names: readonly string[]): Readonly<Record<string, string>> {
  const given = names.filter((name) => from[name] !== undefined);
  return Object.fromEntries(given.map((name) => [name, string(from[name], name)]));
}
