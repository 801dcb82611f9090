/** The parts of the platform, and whether each is in force at the moment of the answer. */
import type { TenantId } from "../base/ids.ts";
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

/** Whether something is in force now, and why. */
export interface DomainStatus {
  readonly configured: boolean;
  /** One sentence for a person. Every tenant reads it: no address, path or other inside of the deployment. */
  readonly reason: string;
}

export interface PlatformDomain extends DomainStatus {
  readonly domain: PlatformDomainName;
}

/** The authentication contract in force (specification, section 2.4). */
export interface AuthConfiguration {
  /** `bearer_token_validation` where no issuer is configured. */
  readonly mode: "oauth_client_credentials" | "bearer_token_validation";
  readonly proofOfPossession: ProofOfPossession;
  /** Issuer and audience are absent where no issuer is configured. */
  readonly oidcIssuer?: string;
  readonly oidcAudience?: string;
  /** The verifier is configured and holds the issuer's keys now. */
  readonly oidcIssuerReady: boolean;
  readonly mtlsReady: boolean;
}

/**
 * Live facts. Functions are called for every answer: they must be cheap and must not throw. While nothing has changed
 * they give the same object, so that what was made of it serves again.
 */
export interface LivePlatform {
  readonly authMode: AuthMode;
  /** For callers of the tenant, whose issuer is its own; without one of the deployment as a whole, which names none. */
  authConfiguration(tenantId?: TenantId): AuthConfiguration;
  /** Whether a policy set is in force, and whether it is the newest. */
  policy(): DomainStatus;
  /** Whether records can be written. */
  ledger(): DomainStatus;
  /** Number of key-reference patterns that the deployment manages. */
  readonly managedKeyPatterns: number;
}

/** What is made of the live facts, and of which. */
interface PlatformStatus {
  readonly policy: DomainStatus;
  readonly ledger: DomainStatus;
  readonly status: Readonly<Record<PlatformDomainName, DomainStatus>>;
  readonly domains: readonly PlatformDomain[];
}

/** By what is in force for an issuer's callers. */
const newest = new WeakMap<LivePlatform, WeakMap<AuthConfiguration, PlatformStatus>>();

/** The status of every domain now, for callers of the tenant; without one for the deployment as a whole. */
export function platformStatus(live: LivePlatform, tenantId?: TenantId): PlatformStatus["status"] {
  return currentStatus(live, tenantId).status;
}

/** The same as the list that answers carry. */
export function platformDomains(live: LivePlatform, tenantId: TenantId): readonly PlatformDomain[] {
  return currentStatus(live, tenantId).domains;
}

function currentStatus(live: LivePlatform, tenantId: TenantId | undefined): PlatformStatus {
  const policy = live.policy();
  const ledger = live.ledger();
  const auth = live.authConfiguration(tenantId);
  const ofLive = newest.get(live) ?? new WeakMap<AuthConfiguration, PlatformStatus>();
  newest.set(live, ofLive);
  const known = ofLive.get(auth);
  if (known?.policy === policy && known.ledger === ledger) return known;
  const status = statusOf(live, policy, ledger, auth);
  const domains = platformDomainNames.map((domain) => ({ domain, ...status[domain] }));
  const current = { policy, ledger, status, domains };
  ofLive.set(auth, current);
  return current;
}

function statusOf(
  live: LivePlatform,
  policy: DomainStatus,
  ledger: DomainStatus,
  auth: AuthConfiguration,
): PlatformStatus["status"] {
  const decisions = both(policy, ledger);
  return {
    discovery: { configured: true, reason: "Discovery answers from the running configuration." },
    identity: identity(live.authMode, auth),
    policy,
    protection: decisions ?? { configured: true, reason: "Protection is decided by policy and recorded." },
    key_access: decisions ?? keyAccess(live.managedKeyPatterns),
    artifact_registry: ledger.configured
      ? { configured: true, reason: "Registrations of artifact metadata are recorded on the ledger." }
      : ledger,
    evidence_ledger: ledger,
  };
}

/** The first of the two that is not in force. */
function both(first: DomainStatus, second: DomainStatus): DomainStatus | undefined {
  if (!first.configured) return first;
  return second.configured ? undefined : second;
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
