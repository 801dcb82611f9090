/** Checks of what a deployment supports. */
import { invalidRequests, type Violation } from "../base/errors.ts";
import type { ArtifactProfile, KeyAccessOperation, ProtectionOperation } from "../base/vocabulary.ts";
import type { Deployment } from "./deployment.ts";

/**
 * The protection operation that a key operation serves: a key is wrapped to protect, unwrapped to access. It decides
 * which key operations a deployment supports, and which decisions may be cited.
 */
export const servedOperation: Readonly<Record<KeyAccessOperation, ProtectionOperation>> = {
  wrap: "protect",
  unwrap: "access",
  rewrap: "rewrap",
};

export function operationViolations(deployment: Deployment, operation: ProtectionOperation): readonly Violation[] {
  return deployment.supportedOperations.includes(operation) ? [] : [unsupported("operation")];
}

/**
 * Violation of an unsupported profile.
 *
 * @param field name of the member that names the profile
 */
export function profileViolations(
  deployment: Deployment,
  field: "artifact_profile" | "preferred_artifact_profile",
  profile: ArtifactProfile | undefined,
): readonly Violation[] {
  return profile === undefined || deployment.supportedProfiles.includes(profile) ? [] : [unsupported(field)];
}

/** Violation of a managed key reference that is not canonical. */
export function keyReferenceViolations(deployment: Deployment, reference: string | undefined): readonly Violation[] {
  if (reference === undefined || !deployment.isKeyReferenceAlias(reference)) return [];
  const message =
    "must be canonical: scheme and authority in lowercase, and no user, port, trailing dot, query, fragment, " +
    "percent sign, empty or dot segment";
  return [{ field: "key_reference", rule: "key_reference.canonical", message }];
}

function unsupported(field: string): Violation {
  return { field, rule: "deployment.supported", message: "is not supported by this deployment" };
}

/** Throws `invalid_request` if there are violations. */
export function refuseViolations(violations: readonly Violation[]): void {
  if (violations.length > 0) throw invalidRequests(violations);
}
