/**
 * The Cedar schema: the inputs that policies may read, with their types. The service makes it, because it is the
 * service that makes the inputs: what the manifest declares is added here, and nowhere else. A policy that named an
 * input that nothing makes would type-check and then never see a value.
 *
 * `Resource` has one id, so that `resource == Resource::"my-document"` is refused instead of never matching: what
 * the caller says of the resource is under `context.claimed.resource`.
 */
import { createHash } from "node:crypto";
import type { AttributeType } from "../../base/caller-attributes.ts";
import { cedarVersion } from "../cedar.ts";
import type { PolicyAction } from "./decision.ts";
import { type ReferenceTypes, referenceTypes } from "./entity-references.ts";
import type { DeclaredInputs } from "./inputs.ts";

/** Action groups of the schema, for `action in Action::"dataOperation"`. */
export const actionGroups: Readonly<Record<string, readonly PolicyAction[]>> = {
  dataOperation: ["protect", "access", "rewrap"],
  keyOperation: ["wrap", "unwrap", "rewrapKey"],
};

/** Every action that a policy can name. */
export const policyActions: readonly PolicyAction[] = Object.values(actionGroups).flat();

/**
 * What evaluates policies: the Cedar version, and the version of everything of ours that turns inputs into an answer
 * (inputs, layers, merge). Raise the second when the same bundle could answer the same question differently.
 */
export const engineVersion = `cedar ${cedarVersion}, rules 2`;

const cedarTypes: Readonly<Record<AttributeType, string>> = {
  text: "String",
  set_of_text: "Set<String>",
  whole_number: "Long",
  yes_no: "Bool",
};

/** Text of the schema for policies of a directory that declares this. */
export function schemaFor(declared: DeclaredInputs): string {
  return schemaText(attributesOf(declared), referenceTypes(declared.entities));
}

function attributesOf({ callerAttributes = {} }: DeclaredInputs): string {
  const members = Object.entries(callerAttributes)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, { type, required }]) => `  "${name}"${required ? "" : "?"}: ${cedarTypes[type]},\n`);
  return members.length === 0 ? "" : `  // Attributes that the manifest declares.\n${members.join("")}`;
}

/** The schema for a directory that declares nothing: text of `schema.cedarschema`. */
export const publishedSchema = schemaText("", referenceTypes(undefined));

/**
 * SHA-256 of each schema that an earlier version published: policies of their time have a copy beside them. A version
 * that changes the published schema adds the one before.
 */
const earlierSchemas: readonly string[] = [
  "8177b659c5a13d859ff45c286fc7e6dc18f9f7fedccebc3ad5974d05ff628acb",
  "2d03a5f08e5f6804d853e5785b02ab4e46af73c26813d13f69b693b0999f0858",
];

/**
 * Whether the text is a schema that was published, or that was made for what is declared, now or by an earlier version;
 * whatever line ends it has.
 */
export function isSchemaCopy(text: string, declared: DeclaredInputs): boolean {
  const copy = withNewlines(text);
  return (
    copy === publishedSchema ||
    copy === withNewlines(schemaFor(declared)) ||
    [copy, withoutDeclared(copy, declared)].some((earlier) =>
      earlierSchemas.includes(createHash("sha256").update(earlier, "utf8").digest("hex")),
    )
  );
}

/** What remains of a copy without the parts that declarations add to a published schema. */
function withoutDeclared(copy: string, declared: DeclaredInputs): string {
  const { ofPrincipal, ofWorkload, ofClaimed, ofRegistered, declarations } = referenceTypes(declared.entities);
  // In the order in which they stand there: those of what is claimed may be again among those of what was registered.
  const parts = [attributesOf(declared) + ofPrincipal, ofWorkload, ofClaimed, ofRegistered, declarations];
  return parts.reduce((rest, part) => rest.replace(withNewlines(part), ""), copy);
}

function withNewlines(text: string): string {
  return text.replaceAll("\r\n", "\n");
}

function schemaText(attributes: string, entities: ReferenceTypes): string {
  return `// The inputs that policies may read. Made by the service: a policy directory may hold a copy, for editors, and the
// copy must be unchanged. What the manifest declares is part of the schema that its policies are checked against.

// The authenticated caller, from its credentials. Its id is "<tenant>/<principal>".
entity Principal = {
  "tenant": String,
  "principal_id": String,
  "subject": String,
  // Scopes that the credentials carry.
  "scopes": Set<String>,
  // "bearer_token", "trusted_headers" or "session_token".
  "auth_source": String,
${attributes}${entities.ofPrincipal}};

// What is asked about. It has one id and no attributes: what is said of the resource is in the context.
entity Resource enum ["claimed"];

// Attributes that the request claims, or that were registered: hasTag("region"), getTag("region").
entity Attributes tags String;

// What the request says of itself. None of it is authenticated.
type Claimed = {
  "workload": { "application": String, "environment"?: String, "component"?: String${entities.ofWorkload} },
  "resource": { "kind": String, "id"?: String, "mime_type"?: String },
  "purpose"?: String,
  "labels": Set<String>,
  "attributes": Attributes,
  // "tdf", "envelope" or "detached_signature", where the request names one.
  "artifact_profile"?: String,
  "content_digest_present": Bool,
  "content_size_bytes"?: Long,
  "key_reference"?: String,
${entities.ofClaimed}};

// What this tenant's ledger has of the artifact that the request names, from when it was registered. Absent where nothing
// is known of it: test "context has registered".
type Registered = {
  // As its registration says now, and of every registration of it that counts.
  "labels": Set<String>,
  "labels_ever": Set<String>,
  "attributes": Attributes,
  "resource": { "kind": String, "id"?: String },
  "artifact_profile": String,
  "key_reference"?: String,
  // The application and the id of the principal that registered it.
  "application": String,
  "principal": String,
  // Whether it was registered under a decision that allowed it.
  "citation_matched": Bool,
  // Milliseconds since 1970.
  "registered_at": Long,
${entities.ofRegistered}};

// Whom the question is about, where an enforcement point asks for somebody else: as it says. Absent where the caller asks
// for itself: test "context has on_behalf_of". Where it is there, only permits that read it count.
type OnBehalfOf = {
  "type": String,
  "id": String,
  // Properties: hasTag("department"), getTag("department").
  "properties": Attributes,
  // Every value of every property, as "department=finance"; of a list each member.
  "property_values": Set<String>,
};

action dataOperation, keyOperation;

// Operations on data.
action protect, access, rewrap in [dataOperation] appliesTo {
  principal: Principal,
  resource: Resource,
  context: { "claimed": Claimed, "registered"?: Registered, "on_behalf_of"?: OnBehalfOf },
};

// Operations on keys. The key operation "rewrap" is rewrapKey.
action wrap, unwrap, rewrapKey in [keyOperation] appliesTo {
  principal: Principal,
  resource: Resource,
  context: { "claimed": Claimed, "registered"?: Registered, "on_behalf_of"?: OnBehalfOf },
};
${entities.declarations}`;
}
