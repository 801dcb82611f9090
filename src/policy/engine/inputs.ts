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
 *
 * `?` marks what may be absent: a policy must test `has` first, or it does not type-check. Attributes are tags of an
 * entity of their own, because a Cedar record has fixed members; so no attribute can pose as another input, and
 * labels, being a set of their own, can pose as none.
 */
import type { PolicyQuery } from "./decision.ts";

/** Value of an input, normalized: sets are sorted and without duplicates. */
export type InputValue =
  | string
  | number
  | boolean
  | undefined
  | readonly string[]
  | readonly (readonly [string, string])[];

/** Inputs with a fixed name, by the path that policies read them with. `attributes` is all attributes. */
export const inputTable: readonly (readonly [path: string, name: string, value: (query: PolicyQuery) => InputValue])[] =
  [
    ["principal.tenant", "caller.tenant_id", ({ caller }) => caller.tenantId],
    ["principal.principal_id", "caller.principal_id", ({ caller }) => caller.principalId],
    ["principal.subject", "caller.subject", ({ caller }) => caller.subject],
    ["principal.scopes", "caller.scopes", ({ caller }) => asSet(caller.scopes)],
    ["principal.auth_source", "caller.auth_source", ({ caller }) => caller.authSource],
    ["context.claimed.workload.application", "workload.application", ({ claimed }) => claimed.workload.application],
    ["context.claimed.workload.environment", "workload.environment", ({ claimed }) => claimed.workload.environment],
    ["context.claimed.workload.component", "workload.component", ({ claimed }) => claimed.workload.component],
    ["context.claimed.resource.kind", "resource.kind", ({ claimed }) => claimed.resource.kind],
    ["context.claimed.resource.id", "resource.id", ({ claimed }) => claimed.resource.id],
    ["context.claimed.resource.mime_type", "resource.mime_type", ({ claimed }) => claimed.resource.mime_type],
    ["context.claimed.purpose", "purpose", ({ claimed }) => claimed.purpose],
    ["context.claimed.labels", "labels", ({ claimed }) => asSet(claimed.labels)],
    ["context.claimed.attributes", "attributes", ({ claimed }) => asEntries(claimed.attributes)],
    ["context.claimed.artifact_profile", "artifact_profile", ({ claimed }) => claimed.artifact_profile],
    [
      "context.claimed.content_digest_present",
      "content_digest_present",
      ({ claimed }) => claimed.content_digest_present,
    ],
    ["context.claimed.content_size_bytes", "content_size_bytes", ({ claimed }) => claimed.content_size_bytes],
    ["context.claimed.key_reference", "key_reference", ({ claimed }) => claimed.key_reference],
  ];

/** Names of all inputs, with `attributes` for all attributes. */
export const allInputNames: readonly string[] = inputTable.map(([, name]) => name);

/** Prefix of the name of a single attribute. */
export const attributePrefix = "attributes.";

/** Names of the inputs at a path or below it: `context.claimed.workload` has three. Empty for an unknown path. */
export function inputNamesAt(path: string): readonly string[] {
  return inputTable.filter(([at]) => at === path || at.startsWith(`${path}.`)).map(([, name]) => name);
}

/** Reads the named input from a query. Throws a TypeError for an unknown name. */
export function inputReader(name: string): (query: PolicyQuery) => InputValue {
  const entry = inputTable.find(([, candidate]) => candidate === name);
  if (entry !== undefined) return entry[2];
  if (!name.startsWith(attributePrefix)) throw new TypeError(`no fact has the name ${name}`);
  const key = name.slice(attributePrefix.length);
  return ({ claimed }) => (Object.hasOwn(claimed.attributes, key) ? claimed.attributes[key] : undefined);
}

function asSet(values: readonly string[]): readonly string[] {
  return values.length < 2 ? values : [...new Set(values)].sort();
}

function asEntries(record: Readonly<Record<string, string>>): readonly (readonly [string, string])[] {
  return Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1));
}
