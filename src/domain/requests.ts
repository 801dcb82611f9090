/**
 * Requests as they are evaluated and recorded: member names in snake_case, enumerations as lowercase words, optional
 * members and lists absent if they have no value, `labels` and `attributes` always present. Their canonical JSON is the
 * `request` of the record, the same from any language and protocol. They are type aliases because only those, and not
 * interfaces, are assignable to `JsonObject`.
 */
import type {
  ArtifactKind,
  ArtifactProfile,
  EvidenceEventType,
  KeyAccessOperation,
  ProtectionOperation,
} from "../base/vocabulary.ts";
import type { SendableMember } from "../policy/guidance/annotations.ts";
import type { Claimed, OnBehalfOf, PolicyAction } from "../policy/model/decision.ts";

/** Members of every request, such as workload and resource (specification, section 2.1). All are claims. */
type Described = Omit<Claimed, "content_digest_present" | keyof OfRoute>;

/** Claims of some routes only. */
type OfRoute = Pick<Claimed, "artifact_profile" | "content_size_bytes" | "key_reference">;

/** Names of an artifact that may have been registered. The digest is `algorithm:value`. */
type AboutArtifact = { readonly artifact_digest?: string; readonly artifact_cid?: string };

/** Members of every policy question. `content_digest` is `algorithm:value`. */
type Asked = Described &
  AboutArtifact & { readonly content_digest?: string; readonly understood_obligations?: readonly string[] };

/** Request of `policy-resolve`. Sizes are bytes, 0 to 2^53-1. */
export type PolicyResolveRequest = Asked &
  Pick<OfRoute, "content_size_bytes"> & { readonly operation: ProtectionOperation };

export type ProtectionPlanRequest = PolicyResolveRequest & {
  readonly preferred_artifact_profile?: ArtifactProfile;
};

export type KeyAccessRequest = Asked &
  Pick<OfRoute, "artifact_profile" | "key_reference"> & { readonly operation: KeyAccessOperation };

/**
 * One AuthZEN question, from any of the AuthZEN routes. `on_behalf_of` is absent if the caller asks about itself;
 * `requested_action` is absent if the action was requested by its standard name.
 */
export type EvaluationRequest = Asked &
  OfRoute & {
    readonly operation: PolicyAction;
    readonly requested_action?: string;
    readonly on_behalf_of?: OnBehalfOf;
  };

/** Request of `artifact-register`, without the bytes of the artifact. */
export type RegistrationRequest = Described & {
  readonly operation: ProtectionOperation;
  readonly artifact_kind?: ArtifactKind;
  readonly artifact_profile: ArtifactProfile;
  readonly artifact_digest: string;
  readonly artifact_cid?: string;
  readonly artifact_merkle_root_cid?: string;
  readonly artifact_locator?: string;
  readonly decision_id?: string;
  readonly key_reference?: string;
};

export type EvidenceRequest = Described & {
  readonly event_type: EvidenceEventType;
  readonly artifact_kind?: ArtifactKind;
  readonly artifact_profile?: ArtifactProfile;
  readonly artifact_digest?: string;
  readonly artifact_cid?: string;
  readonly artifact_merkle_root_cid?: string;
  readonly decision_id?: string;
  readonly outcome?: string;
  /** RFC 3339, as sent. */
  readonly occurred_at?: string;
};

type MemberOf<Request> = Request extends unknown ? keyof Request : never;

/** A recorded member of a request on the JSON routes. */
type RequestMember = MemberOf<
  ProtectionPlanRequest | PolicyResolveRequest | KeyAccessRequest | RegistrationRequest | EvidenceRequest
>;

/** Compiles only if the two are the same. */
type Same<A extends B, B extends C, C = A> = A;

/** A policy can ask callers for every member of these requests, except for those that only decisions read. */
export type Sendable = Same<
  SendableMember,
  Exclude<RequestMember, "preferred_artifact_profile" | "understood_obligations">
>;

/** The part of `request_summary` that all routes share. Never contains labels or attributes. */
export function summarize({ workload, resource, purpose, labels, attributes }: Described) {
  return {
    workloadApplication: workload.application,
    workloadEnvironment: workload.environment,
    workloadComponent: workload.component,
    resourceKind: resource.kind,
    resourceId: resource.id,
    mimeType: resource.mime_type,
    purpose,
    labelCount: labels.length,
    attributeCount: Object.keys(attributes).length,
  };
}
