/** Derives the guidance of an answer from merged annotations, defaults and the key reference. */
import { defined } from "../../base/json.ts";
import type { ArtifactProfile } from "../../base/vocabulary.ts";
import type { Guidance, PolicyAction, PolicyQuery } from "../model/decision.ts";
import {
  type ListName,
  listNames,
  type PolicyGuidance,
  type ScalarName,
  type StrictnessOrders,
  scalarNames,
} from "./annotations.ts";
import { type KeyReferenceStatus, type KeyTransportChoice, parseKeyTransport } from "./key-references.ts";

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
    artifact_profile: profile,
    artifact_profile_overridden: asked !== undefined && asked !== profile,
    authorization_strategy: scalars.authorization_strategy ?? defaults.authorization_strategy,
    bind_policy_to: lists.bind_policy_to ?? defaults.bind_policy_to,
    enforcement_mode: scalars.enforcement_mode ?? defaults.enforcement_mode,
    evidence_expected: lists.evidence_expected ?? defaults.evidence_expected[query.action],
    handling_mode: scalars.handling_mode ?? defaults.handling_mode,
    key_strategy:
      scalars.key_strategy ?? (managed ? defaults.key_strategy.managed : defaults.key_strategy.local[profile]),
    ...(transport !== undefined && { key_transport: transport }),
    local_enforcement_library: scalars.local_enforcement_library ?? defaults.local_enforcement_library,
    policy_resolution: defaults.policy_resolution,
    required_actions: lists.required_actions ?? [],
    required_scopes: lists.required_scopes ?? [],
    send_only: lists.send_only ?? defaults.send_only[query.action],
    warnings: lists.warning ?? [],
  };
}

/** Guidance of a denial: the defaults, no key transport, the event for a denial, and what the deciding policies add. */
export function guidanceOfDeny(query: PolicyQuery, given: PolicyGuidance, defaults: GuidanceDefaults): Guidance {
  const { required_actions, required_scopes, warning } = given.lists;
  const added = { scalars: {}, lists: defined({ required_actions, required_scopes, warning }) };
  return {
    ...guidanceOfAllow(query, added, { ...defaults, key_transport: {} }, "unmanaged"),
    evidence_expected: defaults.evidence_expected.deny,
    send_only: defaults.send_only.deny,
  };
}

/** A policy's annotation first; then the reference's rule; then, without a reference, the profile's default. */
function keyTransport(
  { claimed }: PolicyQuery,
  annotated: string | undefined,
  profileDefault: KeyTransportChoice | undefined,
  status: KeyReferenceStatus,
): Guidance["key_transport"] {
  const referenced = claimed.key_reference !== undefined;
  const choice = annotated !== undefined ? parseKeyTransport(annotated) : referenced ? status : profileDefault;
  if (choice === undefined || typeof choice === "string") return undefined;
  const { exchangeAlgorithm, publicKeyDistribution, tdfKey } = choice;
  return {
    ...(exchangeAlgorithm !== undefined && { exchange_algorithm: exchangeAlgorithm }),
    key_material_origin: choice.origin,
    mode: choice.mode,
    ...(publicKeyDistribution !== undefined && { public_key_distribution: publicKeyDistribution }),
    raw_key_delivery_forbidden: true,
    stable_key_reference_preferred: referenced && choice.mode !== "local_provided",
    ...(tdfKey !== undefined && {
      tdf_key: { algorithm: tdfKey.algorithm, attribute_fqns: tdfKey.attributeFqns, kid: tdfKey.kid, url: tdfKey.url },
    }),
  };
}

/** Members that policies give and tests name, each with its annotation's name, but `warnings`. */
export const guidanceNames = [...scalarNames, ...listNames.filter((name) => name !== "alert")].map((name) =>
  name === "warning" ? "warnings" : name,
);

/** The named members. A key transport is named by its mode, or `none`. */
export function describeGuidance(guidance: Guidance): Readonly<Record<string, string | readonly string[]>> {
  const described = { ...guidance, key_transport: guidance.key_transport?.mode ?? "none" };
  return Object.fromEntries(guidanceNames.map((name) => [name, described[name]]));
}

export interface GuidanceDefaults {
  readonly handling_mode: string;
  readonly enforcement_mode: string;
  readonly local_enforcement_library: string;
  /** Profile if neither the request nor a policy names one. */
  readonly artifact_profile: ArtifactProfile;
  /** By owner of the key: the caller's own, by profile, or one with a managed transport. */
  readonly key_strategy: { readonly local: Readonly<Record<ArtifactProfile, string>>; readonly managed: string };
  readonly authorization_strategy: string;
  readonly policy_resolution: string;
  /** Transport for a plan without a key reference, by profile. Absent profiles have none. */
  readonly key_transport: Readonly<Partial<Record<ArtifactProfile, KeyTransportChoice>>>;
  /** What the caller sends after the local work, by action; `deny` on a denial. */
  readonly send_only: Readonly<Record<PolicyAction | "deny", readonly string[]>>;
  readonly bind_policy_to: readonly string[];
  /** The event that reports the action, or a denial. */
  readonly evidence_expected: Readonly<Record<PolicyAction | "deny", readonly string[]>>;
}

const registration = ["artifact_cid", "artifact_digest", "artifact_kind", "artifact_profile", "decision_id"];
const event = ["decision_id", "event_type", "occurred_at", "outcome"];
const keyBinding = ["artifact_digest", "artifact_profile", "decision_id", "key_reference"];

export const guidanceDefaults: GuidanceDefaults = {
  handling_mode: "local_embedded_enforcement",
  enforcement_mode: "local_embedded_enforcement",
  local_enforcement_library: "sdk_embedded_library",
  artifact_profile: "envelope",
  key_strategy: {
    local: { tdf: "local_content_key", envelope: "local_content_key", detached_signature: "local_signing_key" },
    managed: "managed_content_key",
  },
  authorization_strategy: "policy_decision",
  policy_resolution: "metadata_only_control_plane",
  key_transport: {},
  send_only: {
    protect: registration,
    access: event,
    rewrap: registration,
    wrap: keyBinding,
    unwrap: event,
    rewrapKey: keyBinding,
    deny: event,
  },
  bind_policy_to: ["artifact_digest", "content_digest"],
  evidence_expected: {
    protect: ["protect"],
    access: ["access"],
    rewrap: ["rewrap"],
    wrap: ["protect"],
    unwrap: ["access"],
    rewrapKey: ["rewrap"],
    deny: ["deny"],
  },
};

/*
 * The rule for merging the guidance of the deciding policies.
 *
 * - A list is the union of their lists.
 * - A scalar with equal values has that value. Different values with a strictness order give the strictest. Different
 *   values without an order conflict, and a conflict denies.
 * - A name without a value keeps its default (`guidanceDefaults`); a given one replaces it.
 *
 * So the order of the policies does not matter, and repeating guidance changes nothing.
 */

/** Merges by the rule above. Scalars that conflict are left out of the guidance. */
export function mergeGuidance(parts: readonly PolicyGuidance[], strictness: StrictnessOrders) {
  const scalars: Partial<Record<ScalarName, string>> = {};
  const lists: Partial<Record<ListName, readonly string[]>> = {};
  const conflicts: ScalarName[] = [];
  for (const name of namesIn(parts.map((part) => part.scalars))) {
    const values = new Set(parts.flatMap((part) => part.scalars[name] ?? []));
    const chosen = values.size > 1 ? strictness[name]?.findLast((value) => values.has(value)) : [...values][0];
    if (chosen !== undefined) scalars[name] = chosen;
    else if (values.size > 1) conflicts.push(name);
  }
  for (const name of namesIn(parts.map((part) => part.lists))) {
    lists[name] = [...new Set(parts.flatMap((part) => part.lists[name] ?? []))].sort();
  }
  return { guidance: { scalars, lists }, conflicts: conflicts.sort() };
}

/** Names that any of the parts has: most policies give no guidance. */
function namesIn<Name extends string>(parts: readonly Readonly<Partial<Record<Name, unknown>>>[]): ReadonlySet<Name> {
  return new Set(parts.flatMap((part) => Object.keys(part) as Name[]));
}
