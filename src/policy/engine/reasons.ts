/** Reasons of a decision: ids of policies after their layer's name, and those that are no policy's. */

/** The two layers. Both must allow. */
export type Layer = "platform" | "tenant";

/** `platform/<id>` or `tenant/<id>`. */
export function reasonOf(layer: Layer, policyId: string): string {
  return `${layer}/${policyId}`;
}

/** What denies without a policy. No policy may take these ids. */
export const noPolicySet = "no-policy-set";
export const evaluationError = "evaluation-error";
export const guidanceConflict = "guidance-conflict";
export const keyReferenceOfAnotherTenant = "key-reference-of-another-tenant";
export const requiredScopeMissing = "required-scope-missing";

export const reservedIds: readonly string[] = [
  noPolicySet,
  evaluationError,
  guidanceConflict,
  keyReferenceOfAnotherTenant,
  requiredScopeMissing,
];
