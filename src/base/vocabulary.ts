/** Enumerations of the specification (section 2.2), in the spelling of JSON routes and records. */
import type { TenantId } from "./ids.ts";

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

/** Outcomes of events. `releasing` announces that plaintext is about to leave; another event has the result. */
export const eventOutcomes = ["completed", "failed", "aborted", "refused", "releasing"] as const;
type EventOutcome = (typeof eventOutcomes)[number];

/** Parses an event's `outcome`, in any case. Except for `completed`, a reason may follow: `failed: no key`. */
export function eventOutcome(text: string): EventOutcome | "unknown" {
  const [, word, reason] = /^([a-z]+)(.*)$/s.exec(text.trim().toLowerCase()) ?? [];
  const known = eventOutcomes.find((outcome) => outcome === word);
  return known === undefined || (known === "completed" && reason !== "") ? "unknown" : known;
}

/** The reason of a denial that no policy decided. Records have an empty list instead. */
export const nonePermits = "no policy permits it";

export const authModes = ["trusted_headers", "bearer_token", "bearer_token_or_trusted_headers"] as const;
export type AuthMode = (typeof authModes)[number];

export const proofsOfPossession = ["mtls", "dpop", "none"] as const;
export type ProofOfPossession = (typeof proofsOfPossession)[number];

/**
 * How an ingress forwards the client certificate. `thumbprint`: base64url SHA-256 of the DER, without padding (the form
 * of `x5t#S256`, RFC 8705 §3.1). `pem`: one URL-encoded PEM certificate (nginx `$ssl_client_escaped_cert`). `der`: the
 * `Client-Cert` value of RFC 9440 §2.1, a byte sequence `:base64:` (RFC 9651 §3.3.5).
 */
export const forwardedCertificateFormats = ["thumbprint", "pem", "der"] as const;
export type ForwardedCertificateFormat = (typeof forwardedCertificateFormats)[number];

/** How key material reaches the local cryptographic step. */
export const keyTransportModes = [
  "local_provided",
  "wrapped_key_reference",
  "authorized_key_release",
  "kem_encapsulated_cek",
] as const;
export type KeyTransportMode = (typeof keyTransportModes)[number];

/** Algorithms of keys that wrap the payload keys of TDFs, as OpenTDF names them. */
export const tdfKeyAlgorithms = [
  ...["rsa:2048", "rsa:4096"],
  ...["ec:secp256r1", "ec:secp384r1", "ec:secp521r1"],
] as const;

/** A public key of an OpenTDF key access service. */
export interface TdfKeyName {
  readonly url: string;
  readonly kid: string;
  readonly algorithm: (typeof tdfKeyAlgorithms)[number];
  /** Attribute values that a file's policy must name. */
  readonly attributeFqns: readonly string[];
}

/** How a key that is managed reaches its users. */
export interface ManagedKeyTransport {
  readonly mode: KeyTransportMode;
  /** Origin of the key material, such as `kms`. */
  readonly origin: string;
  readonly publicKeyDistribution?: string;
  readonly exchangeAlgorithm?: string;
  readonly tdfKey?: TdfKeyName;
}

/** Rule for the key references that match one pattern, in which `*` stands for any characters. */
export interface KeyReferenceRule extends ManagedKeyTransport {
  readonly pattern: string;
  /** The only tenants that may use a matching reference; absent: all. */
  readonly tenants?: readonly TenantId[];
}

/** Forms of the members, in visible ASCII. */
export const tdfKeyForms = {
  url: /^https?:\/\/(?!.*[,;?#])[\x21-\x7e]{1,240}$/,
  kid: /^[\x21-\x2b\x2d-\x7e]{1,256}$/,
  attributeFqn:
    /^https?:\/\/(?!.*[,;])[\x21-\x2e\x30-\x7e]+\/attr\/[\x21-\x2e\x30-\x7e]+\/value\/[\x21-\x2e\x30-\x7e]+$/,
} as const;

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

/** Recorded path of AuthZEN questions, for any of the AuthZEN routes. */
export const evaluationPath = "/access/v1/evaluation";
