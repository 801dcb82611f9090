/** Default guidance. The manifest's `guidance` may replace it; a revision contains it. */
import type { ArtifactProfile } from "../../base/vocabulary.ts";
import type { PolicyAction } from "../model/decision.ts";
import type { KeyTransportChoice } from "./key-transport.ts";

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
