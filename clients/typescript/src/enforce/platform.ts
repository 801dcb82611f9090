/** The interface between local enforcement and the client's calls, in the words of the JSON routes. */
import type { JsonObject } from "@bufbuild/protobuf";

export type Operation = "protect" | "access" | "rewrap";
export type KeyOperation = "wrap" | "unwrap" | "rewrap";
export type Profile = "envelope" | "detached_signature" | "tdf";
export type EventType = Operation | "deny";

export interface Workload {
  readonly application: string;
  readonly environment?: string;
  readonly component?: string;
}

export interface Resource {
  readonly kind: string;
  readonly id?: string;
  readonly mime_type?: string;
}

/** Description of every request. */
export interface Description {
  readonly workload: Workload;
  readonly resource: Resource;
  readonly purpose?: string;
  readonly labels: readonly string[];
  readonly attributes: Readonly<Record<string, string>>;
}

/** A question about an operation or a key. */
export interface Question extends Description {
  readonly understood_obligations: readonly string[];
  readonly content_digest?: string;
  readonly artifact_digest?: string;
  readonly artifact_cid?: string;
}

export interface ProtectionQuestion extends Question {
  readonly operation: Operation;
  readonly preferred_artifact_profile: Profile;
  readonly content_size_bytes?: number;
}

export interface KeyQuestion extends Question {
  readonly operation: KeyOperation;
  readonly artifact_profile: Profile;
  readonly key_reference: string;
}

export interface Obligation {
  readonly id: string;
  readonly parameters: Readonly<Record<string, string>>;
}

/** A decision on the operation or the key. Members are absent if the answer has none. */
export interface Decision {
  readonly allow: boolean;
  readonly decisionId: string;
  readonly policyRevision: string;
  readonly reasons: readonly string[];
  readonly obligations: readonly Obligation[];
  /** The receipt, in the JSON of the contract. */
  readonly receipt?: JsonObject;
  readonly plan: {
    /** Whether the work is done here: `protect_locally`, `local_cryptographic_operation`. */
    readonly isLocal: boolean;
    readonly sendPlaintextToPlatform: boolean;
    readonly artifactProfile: string;
    /** `local_provided` if the answer has no key transport. */
    readonly keyTransport: string;
    /** The key for a TDF, if the platform names one. */
    readonly tdfKey?: PlannedTdfKey;
    /** For protection plans. */
    readonly handlingMode?: string;
    readonly library?: string;
  };
}

export interface PlannedTdfKey {
  readonly url: string;
  readonly kid: string;
  readonly algorithm: string;
  /** Attribute values that the file's policy must name. */
  readonly attributeFqns: readonly string[];
}

export interface Artifact {
  readonly artifact_kind: "data_object" | "tdf_manifest";
  readonly artifact_profile: Profile;
  readonly artifact_digest: string;
  readonly artifact_cid: string;
  readonly decision_id: string;
}

export interface Registration extends Description, Artifact {
  readonly operation: Operation;
  readonly key_reference: string;
  readonly artifact_locator?: string;
}

/** As it is stored and sent, with the members of the evidence route. */
export interface EvidenceEvent extends Description, Partial<Artifact> {
  readonly event_type: EventType;
  readonly outcome: string;
  readonly occurred_at: string;
}

export interface Accepted {
  readonly accepted: boolean;
  readonly warnings: readonly string[];
  readonly receipt?: JsonObject;
}

/** What the deployment supports, and what this caller may ask. */
export interface Deployment {
  readonly plaintextToPlatform: boolean;
  readonly operations: readonly string[];
  readonly profiles: readonly string[];
  /** Scopes that the used routes need and the caller lacks. */
  readonly missingScopes: readonly string[];
  /** Identity in the credentials, for comparison with receipts. Absent: not compared. */
  readonly caller?: { readonly tenantId: string; readonly principalId: string };
}

/** The calls. Each rejects without an answer; the client has retries, tokens and deadlines. */
export interface Platform {
  deployment(signal?: AbortSignal): Promise<Deployment>;
  planProtection(question: ProtectionQuestion, signal?: AbortSignal): Promise<Decision>;
  planKeyAccess(question: KeyQuestion, signal?: AbortSignal): Promise<Decision>;
  registerArtifact(registration: Registration, idempotencyKey: string, signal?: AbortSignal): Promise<Accepted>;
  recordEvidence(event: EvidenceEvent, idempotencyKey: string, signal?: AbortSignal): Promise<Accepted>;
}
