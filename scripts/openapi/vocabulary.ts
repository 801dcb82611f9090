/**
 * Schema keywords of members beyond their protobuf type and rules: closed sets of words, fixed values and formats that
 * other code enforces. The words come from the modules that use them in answers.
 */

import type { AuthSource } from "../../src/base/caller.ts";
import type { JsonObject } from "../../src/base/json.ts";
import { keyTransportModes, proofsOfPossession } from "../../src/base/vocabulary.ts";
import { plaintextTransport } from "../../src/domain/answer.ts";
import { evaluationsSemantics } from "../../src/domain/evaluation.ts";
import { type AuthConfiguration, platformDomainNames } from "../../src/domain/platform-domains.ts";
import { routes } from "../../src/domain/routes.ts";

const authSources: Readonly<Record<AuthSource, true>> = {
  bearer_token: true,
  trusted_headers: true,
  session_token: true,
};
const authConfigurationModes: Readonly<Record<AuthConfiguration["mode"], true>> = {
  oauth_client_credentials: true,
  bearer_token_validation: true,
};

const localOnly = { const: plaintextTransport };
// Not `const`: generators for Java make an enumeration of a boolean constant, which does not compile.
const never = { not: { enum: [true] } };
const always = { not: { enum: [false] } };
const uuid = { format: "uuid" };
const count = { minimum: 0 };
const base64 = { contentEncoding: "base64" };

/** RFC 4648 §4, padded, without whitespace, unused bits zero: the only spelling of the same bytes. */
const canonicalBase64 = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=|[A-Za-z0-9+/][AQgw]==)?$";

/** Further keywords by `Message.member`. */
const keywords: Readonly<Record<string, JsonObject>> = {
  "AuthConfiguration.mode": { enum: Object.keys(authConfigurationModes) },
  "AuthConfiguration.proof_of_possession": { enum: proofsOfPossession },
  "AuthConfiguration.oidc_issuer": { format: "uri" },
  "Caller.auth_source": { enum: Object.keys(authSources) },
  "CapabilityRoute.route": { enum: routes.map(({ path }) => path) },
  "CapabilityRoute.domain": { enum: platformDomainNames },
  "PlatformDomain.domain": { enum: platformDomainNames },
  "GetBootstrapResponse.plaintext_to_platform": never,
  "KeyTransport.mode": { enum: keyTransportModes },
  "KeyTransport.raw_key_delivery_forbidden": always,
  "ProtectionDecision.plaintext_transport": localOnly,
  "ProtectionDecision.decision_id": uuid,
  "ProtectionExecution.send_plaintext_to_platform": never,
  "ProtectionSummary.label_count": count,
  "ProtectionSummary.attribute_count": count,
  "PolicyDecision.decision_id": uuid,
  "PolicyHandling.plaintext_transport": localOnly,
  "PolicySummary.label_count": count,
  "PolicySummary.attribute_count": count,
  "KeyAccessDecision.decision_id": uuid,
  "KeyAccessExecution.send_plaintext_to_platform": never,
  "KeyAccessSummary.label_count": count,
  "KeyAccessSummary.attribute_count": count,
  "Registration.send_plaintext_to_platform": never,
  "RegistrationSummary.label_count": count,
  "RegistrationSummary.attribute_count": count,
  "RegisterArtifactRequest.artifact_object_b64": { contentEncoding: "base64", pattern: canonicalBase64 },
  "Ingestion.plaintext_transport": localOnly,
  "EvidenceSummary.label_count": count,
  "EvidenceSummary.attribute_count": count,
  "Receipt.record_id": uuid,
  "Receipt.leaf_index": count,
  "Receipt.tree_size": count,
  "Receipt.leaf_hash": base64,
  "Receipt.leaf": base64,
  "Receipt.opening": base64,
  "Receipt.record": base64,
  "RecordEvidenceRequest.occurred_at": { format: "date-time" },
};

/** The same for messages that only further documents have. */
const furtherKeywords: Readonly<Record<string, JsonObject>> = {
  // Handlers refuse a call or a question without these, although the protobuf rules allow it.
  "PlanProtectionsRequest.items": { minItems: 1 },
  "ResolvePoliciesRequest.items": { minItems: 1 },
  "PlanKeyAccessesRequest.items": { minItems: 1 },
  "RecordEventsRequest.items": { minItems: 1 },
  "RegisterArtifactsRequest.items": { minItems: 1 },
  "Subject.type": { minLength: 1 },
  "Subject.id": { minLength: 1 },
  "Action.name": { minLength: 1 },
  "Resource.type": { minLength: 1 },
  "Resource.id": { minLength: 1 },
  "EvaluationsOptions.evaluations_semantic": { enum: [...evaluationsSemantics, "", null] },
};

const searchKinds = ["Subjects", "Resources", "Actions"];

/** Members of answers that are omitted if empty. */
export const omittedMembers: ReadonlySet<string> = new Set([
  ...["EvaluateManyResponse.evaluations", "EvaluateManyResponse.context"],
  ...searchKinds.map((kind) => `Search${kind}Response.page`),
]);

/** Message members of requests that may be `null`. */
export const nullableMembers: ReadonlySet<string> = new Set([
  "EvaluateManyRequest.options",
  ...["EvaluateManyRequest", "Evaluation"].flatMap((of) => [`${of}.subject`, `${of}.action`, `${of}.resource`]),
  ...searchKinds.map((kind) => `Search${kind}Request.page`),
]);

/** A question inherits omitted members from the request; without questions, the request is one itself. */
function inAllQuestions(member: string): JsonObject {
  const has = { required: [member], properties: { [member]: { type: "object" } } };
  const evaluations = { type: "array", minItems: 1, items: has };
  return { anyOf: [has, { required: ["evaluations"], properties: { evaluations } }] };
}

/** Keywords of whole messages. */
export const messageKeywords: Readonly<Record<string, JsonObject>> = {
  EvaluateManyRequest: { allOf: ["subject", "action", "resource"].map(inAllQuestions) },
};

/** Keywords by member; tracks which members were requested. */
export class Vocabulary {
  readonly #unused = new Set(Object.keys(keywords));

  /** @param member `Message.member` */
  keywordsOf(member: string): JsonObject {
    this.#unused.delete(member);
    return keywords[member] ?? furtherKeywords[member] ?? {};
  }

  /** Throws if the table names a member that no message has. */
  close(): void {
    if (this.#unused.size > 0) throw new Error(`no such member: ${[...this.#unused].join(", ")}`);
  }
}
