/** A platform in memory that allows everything, for tests of what cryptography alone holds; calls can be replaced. */
import { randomUUID } from "node:crypto";
import { EnforcementError, type EnforcementFailure } from "../../clients/typescript/src/enforce/index.ts";
import type { Decision, EvidenceEvent, Platform, Registration } from "../../clients/typescript/src/enforce/platform.ts";

export interface PermissivePlatform extends Platform {
  /** Events that were recorded, by idempotency key. */
  readonly events: Map<string, EvidenceEvent>;
  readonly registrations: Registration[];
}

export function permissivePlatform(): PermissivePlatform {
  const events = new Map<string, EvidenceEvent>();
  const registrations: Registration[] = [];
  const decide = (artifactProfile: string): Decision => ({
    allow: true,
    decisionId: randomUUID(),
    policyRevision: "revision",
    reasons: [],
    obligations: [],
    plan: { isLocal: true, sendPlaintextToPlatform: false, artifactProfile, keyTransport: "local_provided" },
  });
  return {
    events,
    registrations,
    deployment: async () => ({
      plaintextToPlatform: false,
      operations: ["protect", "access", "rewrap"],
      profiles: ["envelope", "detached_signature", "tdf"],
      missingScopes: [],
    }),
    planProtection: async ({ preferred_artifact_profile }) => decide(preferred_artifact_profile),
    planKeyAccess: async ({ artifact_profile }) => decide(artifact_profile),
    registerArtifact: async (registration) => {
      registrations.push(registration);
      return { accepted: true, warnings: [] };
    },
    recordEvidence: async (event, id) => {
      events.set(id, event);
      return { accepted: true, warnings: [] };
    },
  };
}

/** How work of an enforcer fails; undefined if it does not. Rejects with any other error. */
export async function failureOf(work: Promise<unknown>): Promise<EnforcementFailure | undefined> {
  try {
    await work;
    return undefined;
  } catch (error) {
    if (error instanceof EnforcementError) return error.failure;
    throw error;
  }
}
