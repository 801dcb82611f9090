/**
 * The Cedar schema: the facts that policies may read, with their types. The service publishes it, because it is the
 * service that makes the facts; operators do not extend it. A policy that named a fact of the operator's own would
 * type-check and then never see a value.
 *
 * `Resource` has one id, so that `resource == Resource::"my-document"` is refused instead of never matching: what
 * the caller says of the resource is under `context.claimed.resource`.
 */
import { getCedarVersion } from "@cedar-policy/cedar-wasm/nodejs";
import type { PolicyAction } from "./decision.ts";

/** Action groups of the schema, for `action in Action::"dataOperation"`. */
export const actionGroups: Readonly<Record<string, readonly PolicyAction[]>> = {
  dataOperation: ["protect", "access", "rewrap"],
  keyOperation: ["wrap", "unwrap", "rewrapKey"],
};

/** Every action that a policy can name. */
export const policyActions: readonly PolicyAction[] = Object.values(actionGroups).flat();

/**
 * What evaluates policies: the Cedar version, and the version of everything of ours that turns facts into an answer
 * (facts, layers, merge). Raise the second when the same bundle could answer the same question differently.
 */
export const engineVersion = `cedar ${getCedarVersion()}, rules 1`;

/** Text of `schema.cedarschema`. */
export const publishedSchema = `// The facts that policies may read. Published by the service and the same in every deployment: a policy directory
// may hold a copy, for editors, and the copy must be unchanged. Operators do not extend it: facts of their own
// come as labels and attributes.

// The authenticated caller, from its credentials. Its id is "<tenant>/<principal>".
entity Principal = {
  "tenant": String,
  "principal_id": String,
  "subject": String,
  // Scopes that the credentials carry.
  "scopes": Set<String>,
  // "bearer_token", "trusted_headers" or "session_token".
  "auth_source": String,
};

// What is asked about. It has one id and no attributes: all that is known of the resource is claimed.
entity Resource enum ["claimed"];

// Attributes that the caller declared: hasTag("region"), getTag("region").
entity Attributes tags String;

// What the request says of itself. None of it is authenticated.
type Claimed = {
  "workload": { "application": String, "environment"?: String, "component"?: String },
  "resource": { "kind": String, "id"?: String, "mime_type"?: String },
  "purpose"?: String,
  "labels": Set<String>,
  "attributes": Attributes,
  // "tdf", "envelope" or "detached_signature", where the request names one.
  "artifact_profile"?: String,
  "content_digest_present": Bool,
  "content_size_bytes"?: Long,
  "key_reference"?: String,
};

action dataOperation, keyOperation;

// Operations on data.
action protect, access, rewrap in [dataOperation] appliesTo {
  principal: Principal,
  resource: Resource,
  context: { "claimed": Claimed },
};

// Operations on keys. The key operation "rewrap" is rewrapKey.
action wrap, unwrap, rewrapKey in [keyOperation] appliesTo {
  principal: Principal,
  resource: Resource,
  context: { "claimed": Claimed },
};
`;
