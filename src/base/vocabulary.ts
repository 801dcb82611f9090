/** Enumerations of the specification (section 2.2), as they are written on the JSON routes and in records. */
export const protectionOperations = ["protect", "access", "rewrap"] as const;
export type ProtectionOperation = (typeof protectionOperations)[number];

export const keyAccessOperations = ["wrap", "unwrap", "rewrap"] as const;
export type KeyAccessOperation = (typeof keyAccessOperations)[number];

export const artifactProfiles = ["tdf", "envelope", "detached_signature"] as const;
export type ArtifactProfile = (typeof artifactProfiles)[number];

export const artifactKinds = ["data_object", "tdf_manifest"] as const;
export type ArtifactKind = (typeof artifactKinds)[number];

export const evidenceEventTypes = ["protect", "access", "rewrap", "deny"] as const;
export type EvidenceEventType = (typeof evidenceEventTypes)[number];

export const authModes = ["trusted_headers", "bearer_token", "bearer_token_or_trusted_headers"] as const;
export type AuthMode = (typeof authModes)[number];

export const proofsOfPossession = ["mtls", "dpop", "none"] as const;
export type ProofOfPossession = (typeof proofsOfPossession)[number];

/** How key material reaches the local cryptographic step. */
export const keyTransportModes = [
  "local_provided",
  "wrapped_key_reference",
  "authorized_key_release",
  "kem_encapsulated_cek",
] as const;
export type KeyTransportMode = (typeof keyTransportModes)[number];

/** The eight public routes, as the last part of their path below `/v1/sdk/` (specification, section 4). */
export const sdkRoutes = [
  "capabilities",
  "whoami",
  "bootstrap",
  "protection-plan",
  "policy-resolve",
  "key-access-plan",
  "artifact-register",
  "evidence",
] as const;
export type SdkRoute = (typeof sdkRoutes)[number];
