/**
 * The table of policy inputs: one row for each value that policies may read, by the record that has it. From the rows
 * come the types of queries (`decision.ts`), the inputs and their checks (`inputs.ts`), the Cedar schema (`schema.ts`),
 * the parser of written questions (`query.ts`), options of `policy explain`, the samples that compare policies, the JSON
 * Schema of policy tests, and docs/reference/policy-inputs.md. A decision reads each claimed input from the member of
 * the request that has its name (`domain/decision.ts`).
 *
 * Attributes are tags of an entity of their own, because a Cedar record has fixed members; so no attribute can pose as
 * another input, and labels, being a set of their own, can pose as none. What the organisation knows
 * (`entities.ts`) is at further paths, made of these inputs and of nothing else that changes while a revision is
 * in force.
 */
import { type AttributeType, authSources } from "../../base/caller.ts";
import { artifactProfiles } from "../../base/vocabulary.ts";

/** Type of a value; tags are texts with arbitrary names. */
export type ValueKind = AttributeType | "tags";

export interface Row {
  readonly kind: ValueKind;
  /** Whether it may be absent: a policy must test `has` first, or it does not type-check. */
  readonly optional?: true;
  /** The only texts that it may be. */
  readonly words?: readonly string[];
  /** The least number. */
  readonly least?: number;
  /** Whether the text, or a member of the set, may be empty. */
  readonly mayBeEmpty?: true;
  /** Value in written questions without one. Sets and tags are empty there. */
  readonly usual?: string | number | boolean;
  /** Comment in the Cedar schema. */
  readonly says?: string;
  /** Option of `policy explain`, and its help. */
  readonly option?: readonly [flag: string, help: string];
}

/** Rows by name; a nested record has a nested table. */
export interface Rows {
  readonly [name: string]: Row | Rows;
}

export function isRow(row: Row | Rows): row is Row {
  return typeof row.kind === "string";
}

/** Facts of the caller's credentials. */
export const principalRows = {
  tenant: { kind: "text", option: ["--tenant <id>", "tenant of the caller"] },
  principal_id: { kind: "text", usual: "test-principal", option: ["--principal <text>", "principal"] },
  subject: { kind: "text", usual: "test-subject", option: ["--subject <text>", "subject"] },
  scopes: {
    kind: "set_of_text",
    says: "Scopes that the credentials carry.",
    option: ["--scope <scope...>", "scopes of the caller"],
  },
  auth_source: {
    kind: "text",
    words: authSources,
    usual: "bearer_token",
    says: '"bearer_token", "trusted_headers" or "session_token".',
  },
} as const satisfies Rows;

/** The caller's unauthenticated claims: policies see them under `claimed`, not as part of the principal. */
export const claimedRows = {
  workload: {
    application: { kind: "text", option: ["--application <name>", "the workload's application"] },
    environment: { kind: "text", optional: true, option: ["--environment <text>", "environment"] },
    component: { kind: "text", optional: true, option: ["--component <text>", "component"] },
  },
  resource: {
    kind: { kind: "text", option: ["--kind <kind>", "kind of the resource"] },
    id: { kind: "text", optional: true, option: ["--id <text>", "id"] },
    mime_type: { kind: "text", optional: true, option: ["--mime-type <text>", "mime type"] },
  },
  purpose: { kind: "text", optional: true, option: ["--purpose <text>", "purpose"] },
  labels: { kind: "set_of_text", mayBeEmpty: true, option: ["--label <label...>", "labels"] },
  attributes: { kind: "tags", option: ["--attribute <key=value...>", "attributes"] },
  artifact_profile: {
    kind: "text",
    optional: true,
    words: artifactProfiles,
    says: '"tdf", "envelope" or "detached_signature", if the request names one.',
    option: ["--profile <profile>", "artifact profile that is asked for"],
  },
  content_digest_present: {
    kind: "yes_no",
    usual: false,
    option: ["--digest-present", "the request has a content digest"],
  },
  content_size_bytes: { kind: "whole_number", optional: true, least: 0, option: ["--size <bytes>", "content size"] },
  key_reference: { kind: "text", optional: true, option: ["--key-reference <text>", "key reference"] },
} as const satisfies Rows;

/** Facts of the ledger from the artifact's registration. */
export const registeredRows = {
  labels: {
    kind: "set_of_text",
    mayBeEmpty: true,
    says: "As its registration says now, and of every registration of it that counts.",
  },
  // So that a label cannot be removed by registering again.
  labels_ever: { kind: "set_of_text", mayBeEmpty: true },
  attributes: { kind: "tags" },
  resource: { kind: { kind: "text" }, id: { kind: "text", optional: true } },
  artifact_profile: { kind: "text", words: artifactProfiles, usual: "tdf" },
  key_reference: { kind: "text", optional: true },
  application: {
    kind: "text",
    usual: "test-application",
    says: "The application and the id of the principal that registered it.",
  },
  principal: { kind: "text", usual: "test-principal" },
  citation_matched: {
    kind: "yes_no",
    usual: true,
    says: "Whether it was registered under a decision that allowed it.",
  },
  registered_at: { kind: "whole_number", usual: 0, says: "Milliseconds since 1970." },
} as const satisfies Rows;

/** The subject of a question if that is not the caller, as claimed by the calling enforcement point. */
export const onBehalfOfRows = {
  type: { kind: "text" },
  id: { kind: "text" },
  properties: { kind: "tags", says: 'Properties: hasTag("department"), getTag("department").' },
  property_values: {
    kind: "set_of_text",
    mayBeEmpty: true,
    says: 'Every value of every property, as "department=finance"; of a list each member.',
  },
} as const satisfies Rows;

interface Values {
  readonly text: string;
  readonly set_of_text: readonly string[];
  readonly whole_number: number;
  readonly yes_no: boolean;
  readonly tags: Readonly<Record<string, string>>;
}

type ValueOf<Of> = Of extends { readonly words: readonly (infer Word)[] }
  ? Word
  : Of extends { readonly kind: infer Kind extends ValueKind }
    ? Values[Kind]
    : RecordOf<Of>;
type OptionalOf<Of> = { [Name in keyof Of]: Of[Name] extends { readonly optional: true } ? Name : never }[keyof Of];

/** The record with these rows. */
export type RecordOf<Of> = { readonly [Name in Exclude<keyof Of, OptionalOf<Of>>]: ValueOf<Of[Name]> } & {
  readonly [Name in OptionalOf<Of>]?: ValueOf<Of[Name]>;
};
