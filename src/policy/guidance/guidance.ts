/** Derives the guidance of an answer from merged annotations, defaults and the key reference. */
import type { SnakeCase } from "../../base/json.ts";
import type { ArtifactProfile } from "../../base/vocabulary.ts";
import type { Guidance, KeyTransportGuidance, PolicyQuery } from "../model/decision.ts";
import type { ListName, PolicyGuidance, ScalarName } from "./annotations.ts";
import type { GuidanceDefaults } from "./guidance-defaults.ts";
import type { KeyReferenceStatus } from "./key-references.ts";
import { type KeyTransportChoice, parseKeyTransport } from "./key-transport.ts";

/** Guidance of an allowed query. `given` comes from parsed annotations, so its values are valid. */
export function guidanceOfAllow(
  query: PolicyQuery,
  given: PolicyGuidance,
  defaults: GuidanceDefaults,
  status: KeyReferenceStatus,
): Guidance {
  const { scalars, lists } = given;
  const asked = query.claimed.artifact_profile;
  const profile = (scalars.artifact_profile as ArtifactProfile | undefined) ?? asked ?? defaults.artifact_profile;
  const transport = keyTransport(query, scalars.key_transport, defaults.key_transport[profile], status);
  const managed = transport !== undefined && transport.mode !== "local_provided";
  return {
    handlingMode: scalars.handling_mode ?? defaults.handling_mode,
    enforcementMode: scalars.enforcement_mode ?? defaults.enforcement_mode,
    localEnforcementLibrary: scalars.local_enforcement_library ?? defaults.local_enforcement_library,
    artifactProfile: profile,
    artifactProfileOverridden: asked !== undefined && asked !== profile,
    keyStrategy:
      scalars.key_strategy ?? (managed ? defaults.key_strategy.managed : defaults.key_strategy.local[profile]),
    authorizationStrategy: scalars.authorization_strategy ?? defaults.authorization_strategy,
    policyResolution: defaults.policy_resolution,
    ...(transport !== undefined && { keyTransport: transport }),
    sendOnly: lists.send_only ?? defaults.send_only[query.action],
    bindPolicyTo: lists.bind_policy_to ?? defaults.bind_policy_to,
    requiredActions: lists.required_actions ?? [],
    evidenceExpected: lists.evidence_expected ?? defaults.evidence_expected[query.action],
    requiredScopes: lists.required_scopes ?? [],
    warnings: lists.warning ?? [],
  };
}

/** Guidance of a denial: the defaults, the event for a denial, and what the deciding policies add. */
export function guidanceOfDeny(query: PolicyQuery, given: PolicyGuidance, defaults: GuidanceDefaults): Guidance {
  const profile = query.claimed.artifact_profile ?? defaults.artifact_profile;
  return {
    handlingMode: defaults.handling_mode,
    enforcementMode: defaults.enforcement_mode,
    localEnforcementLibrary: defaults.local_enforcement_library,
    artifactProfile: profile,
    artifactProfileOverridden: false,
    keyStrategy: defaults.key_strategy.local[profile],
    authorizationStrategy: defaults.authorization_strategy,
    policyResolution: defaults.policy_resolution,
    sendOnly: defaults.send_only.deny,
    bindPolicyTo: defaults.bind_policy_to,
    requiredActions: given.lists.required_actions ?? [],
    evidenceExpected: defaults.evidence_expected.deny,
    requiredScopes: given.lists.required_scopes ?? [],
    warnings: given.lists.warning ?? [],
  };
}

/** A policy's annotation first; then the reference's rule; then, without a reference, the profile's default. */
function keyTransport(
  { claimed }: PolicyQuery,
  annotated: string | undefined,
  profileDefault: KeyTransportChoice | undefined,
  status: KeyReferenceStatus,
): KeyTransportGuidance | undefined {
  const referenced = claimed.key_reference !== undefined;
  const choice = annotated !== undefined ? choiceOf(annotated) : referenced ? status : profileDefault;
  if (choice === undefined || typeof choice === "string") return undefined;
  return {
    mode: choice.mode,
    keyMaterialOrigin: choice.origin,
    stableKeyReferencePreferred: referenced && choice.mode !== "local_provided",
    ...(choice.publicKeyDistribution !== undefined && { publicKeyDistribution: choice.publicKeyDistribution }),
    ...(choice.exchangeAlgorithm !== undefined && { exchangeAlgorithm: choice.exchangeAlgorithm }),
  };
}

function choiceOf(text: string): KeyTransportChoice {
  const parsed = parseKeyTransport(text);
  if (typeof parsed === "string") throw new TypeError(`a loaded policy has a key transport that must ${parsed}`);
  return parsed.choice;
}

type ReadMember = (guidance: Guidance) => string | readonly string[];

/** Members that neither policies nor tests name: whether the profile was replaced, and policy resolution. */
type Untold = "artifact_profile_overridden" | "policy_resolution";

/** Every annotation, and every member derived from one. */
type GuidanceName = Exclude<ScalarName | ListName, "warning" | "alert"> | Exclude<SnakeCase<keyof Guidance>, Untold>;

/** Members by name, as a word or a list of words. */
export const guidanceMembers: Readonly<Record<string, ReadMember>> = {
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
} satisfies Record<GuidanceName, ReadMember>;

/** Every member by its name. */
export function describeGuidance(guidance: Guidance): Readonly<Record<string, string | readonly string[]>> {
  return Object.fromEntries(Object.entries(guidanceMembers).map(([name, read]) => [name, read(guidance)]));
}
