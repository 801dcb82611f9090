/** How people and tests name the members of the guidance. */
import type { Guidance } from "../engine/decision.ts";

/** By name, the member as a word or a list of them. */
export const guidanceMembers: Readonly<Record<string, (guidance: Guidance) => string | readonly string[]>> = {
  handling_mode: (guidance) => guidance.handlingMode,
  enforcement_mode: (guidance) => guidance.enforcementMode,
  local_enforcement_library: (guidance) => guidance.localEnforcementLibrary,
  artifact_profile: (guidance) => guidance.artifactProfile,
  key_strategy: (guidance) => guidance.keyStrategy,
  authorization_strategy: (guidance) => guidance.authorizationStrategy,
  key_transport: (guidance) => guidance.keyTransport?.mode ?? "none",
  send_only: (guidance) => guidance.sendOnly,
  bind_policy_to: (guidance) => guidance.bindPolicyTo,
  required_actions: (guidance) => guidance.requiredActions,
  evidence_expected: (guidance) => guidance.evidenceExpected,
  required_scopes: (guidance) => guidance.requiredScopes,
  warnings: (guidance) => guidance.warnings,
};

/** Every member by its name. */
export function describeGuidance(guidance: Guidance): Readonly<Record<string, string | readonly string[]>> {
  return Object.fromEntries(Object.entries(guidanceMembers).map(([name, read]) => [name, read(guidance)]));
}
