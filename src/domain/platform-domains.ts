/** Status of the platform's parts at the moment of an answer. */
import type { TenantId } from "../base/ids.ts";
import { rememberedBy } from "../base/remembered.ts";
import type { AuthMode, ProofOfPossession } from "../base/vocabulary.ts";

export const platformDomainNames = [
  "discovery",
  "identity",
  "policy",
  "protection",
  "key_access",
  "artifact_registry",
  "evidence_ledger",
] as const;
export type PlatformDomainName = (typeof platformDomainNames)[number];

/** Whether a part works now, and why. */
export interface DomainStatus {
  readonly configured: boolean;
  /** One sentence for a person. Every tenant reads it: it must hold no detail of the deployment. */
  readonly reason: string;
}

export interface PlatformDomain extends DomainStatus {
  readonly domain: PlatformDomainName;
}

/** The authentication contract (specification, section 2.4). */
export interface AuthConfiguration {
  /** `bearer_token_validation` if no issuer is configured. */
  readonly mode: "oauth_client_credentials" | "bearer_token_validation";
  readonly proofOfPossession: ProofOfPossession;
  /** Issuer and audience are absent if no issuer is configured. */
  readonly oidcIssuer?: string;
  readonly oidcAudience?: string;
  /** Whether the verifier is configured and has the issuer's keys. */
  readonly oidcIssuerReady: boolean;
  readonly mtlsReady: boolean;
}

/**
 * Live facts. Functions are called for every answer: they must be cheap and must not throw. They return the same object
 * while nothing has changed, so that derived values can be reused.
 */
export interface LivePlatform {
  readonly authMode: AuthMode;
  /** For callers of the tenant, with its issuer; without a tenant for the deployment, without an issuer. */
  authConfiguration(tenantId?: TenantId): AuthConfiguration;
  /** Whether a policy set is loaded, and whether it is the newest. */
  policy(): DomainStatus;
  /** Whether records can be written. */
  ledger(): DomainStatus;
  /** Number of key-reference patterns that the deployment manages. */
  readonly managedKeyPatterns: number;
}

/** Status of every domain with the facts that it was derived from. */
interface PlatformStatus {
  readonly policy: DomainStatus;
  readonly ledger: DomainStatus;
  readonly domains: readonly PlatformDomain[];
}

/** By the authentication contract of an issuer's callers. */
const newest = rememberedBy((_live: LivePlatform) => new WeakMap<AuthConfiguration, PlatformStatus>());

/** The current status of every domain, for callers of the tenant; without one for the deployment. */
export function platformDomains(live: LivePlatform, tenantId?: TenantId): readonly PlatformDomain[] {
  const policy = live.policy();
  const ledger = live.ledger();
  const auth = live.authConfiguration(tenantId);
  const known = newest(live).get(auth);
  if (known?.policy === policy && known.ledger === ledger) return known.domains;
  const status = statusOf(live, policy, ledger, auth);
  const domains = platformDomainNames.map((domain) => ({ domain, ...status[domain] }));
  newest(live).set(auth, { policy, ledger, domains });
  return domains;
}

function statusOf(
  live: LivePlatform,
  policy: DomainStatus,
  ledger: DomainStatus,
  auth: AuthConfiguration,
): Readonly<Record<PlatformDomainName, DomainStatus>> {
  const failing = [policy, ledger].find(({ configured }) => !configured);
  return {
    discovery: { configured: true, reason: "Discovery answers from the running configuration." },
    identity: identity(live.authMode, auth),
    policy,
    protection: failing ?? { configured: true, reason: "Protection is decided by policy and recorded." },
    key_access: failing ?? keyAccess(live.managedKeyPatterns),
    artifact_registry: ledger.configured
      ? { configured: true, reason: "Registrations of artifact metadata are recorded on the ledger." }
      : ledger,
    evidence_ledger: ledger,
  };
}

function identity(mode: AuthMode, auth: AuthConfiguration): DomainStatus {
  if (mode === "trusted_headers") return { configured: true, reason: "The trusted ingress names the caller." };
  if (auth.mode === "oauth_client_credentials" && !auth.oidcIssuerReady) {
    return { configured: false, reason: "The token issuer's keys are not available." };
  }
  return { configured: true, reason: "Access tokens are verified." };
}

function keyAccess(managedKeyPatterns: number): DomainStatus {
  return {
    configured: true,
    reason:
      managedKeyPatterns === 0
        ? "Key use is authorized; callers hold their own keys, none is managed."
        : `Key use is authorized; ${managedKeyPatterns} key reference pattern${managedKeyPatterns === 1 ? " is" : "s are"} managed.`,
  };
}
