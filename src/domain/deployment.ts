/** The deployment's choices about answers, and the services behind them. */
import type { Clock } from "../base/clock.ts";
import { invalidRequests, type Violation } from "../base/errors.ts";
import type { RandomFill, TenantId } from "../base/ids.ts";
import type { ArtifactProfile, ProtectionOperation } from "../base/vocabulary.ts";
import type { Ledger } from "../ledger/ports/ledger.ts";
import type { PolicyAction } from "../policy/model/decision.ts";
import type { LivePlatform } from "./platform-domains.ts";
import type { ScopeTable } from "./routes.ts";

/** Fixed while the process runs. */
export interface Deployment {
  readonly supportedOperations: readonly ProtectionOperation[];
  readonly supportedProfiles: readonly ArtifactProfile[];
  readonly scopes: ScopeTable;
  /** Whether answers name the policies that decided. Records always do. */
  readonly showReasons: boolean;
  /** Age up to which a decision may be cited, in seconds. */
  readonly decisionMaxAgeSeconds: number;
  /** Whether a key reference is another spelling of one that may be managed. */
  readonly isKeyReferenceAlias: (reference: string) => boolean;
}

export type RecordingLedger = Pick<Ledger, "append" | "find" | "registrations">;

export interface DomainDependencies {
  readonly deployment: Deployment;
  readonly live: LivePlatform;
  readonly ledger: RecordingLedger;
  readonly clock: Clock;
  readonly random: RandomFill;
  /** Called after each event is durable. Must return at once and must not throw. */
  readonly observeEvidence?: (tenantId: TenantId, isMatched: boolean) => void;
}

// Checks of what a deployment supports.

/**
 * The protection operation of each operation: a key is wrapped to protect, and unwrapped to access. The table decides
 * which key operations a deployment supports, and which decisions may be cited.
 */
export const servedOperation: Readonly<Record<PolicyAction, ProtectionOperation>> = {
  protect: "protect",
  access: "access",
  rewrap: "rewrap",
  wrap: "protect",
  unwrap: "access",
  rewrapKey: "rewrap",
};

/** Members of a request that a deployment may not support. */
interface Named {
  readonly operation?: PolicyAction;
  readonly artifact_profile?: ArtifactProfile;
  readonly preferred_artifact_profile?: ArtifactProfile;
  readonly key_reference?: string;
}

/** Violations of an operation or profile that is not supported, and of a managed key reference that is not canonical. */
export function unsupported(
  { supportedOperations, supportedProfiles, isKeyReferenceAlias }: Deployment,
  named: Named,
): readonly Violation[] {
  const { operation, key_reference } = named;
  const isOperation = operation === undefined || supportedOperations.includes(servedOperation[operation]);
  const profiles = (["artifact_profile", "preferred_artifact_profile"] as const).filter((field) => {
    const { [field]: profile } = named;
    return profile !== undefined && !supportedProfiles.includes(profile);
  });
  const violations = [...(isOperation ? [] : ["operation"]), ...profiles].map((field) => {
    return { field, rule: "deployment.supported", message: "is not supported by this deployment" };
  });
  if (key_reference === undefined || !isKeyReferenceAlias(key_reference)) return violations;
  const message =
    "must be canonical: scheme and authority in lowercase, and no user, port, trailing dot, query, fragment, " +
    "percent sign, empty or dot segment";
  return [...violations, { field: "key_reference", rule: "key_reference.canonical", message }];
}

/**
 * Violations of a question. Every decision request passes here before it is decided: a rule about all of them belongs
 * here.
 */
export function wrongQuestion(deployment: Deployment, request: Named): readonly Violation[] {
  return unsupported(deployment, request);
}

/** Throws `invalid_request` if there are violations. */
export function refuseViolations(violations: readonly Violation[]): void {
  if (violations.length > 0) throw invalidRequests(violations);
}
