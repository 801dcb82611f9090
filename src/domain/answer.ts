import type { KeyTransportMode } from "../base/vocabulary.ts";
import type { Receipt } from "../ledger/ports/ledger.ts";
import type { Obligation } from "../policy/model/decision.ts";
import type { Decided } from "./decision.ts";
import type { PlatformDomain } from "./platform-domains.ts";

/** Every `plaintext_transport`: plaintext stays with the caller. */
export const plaintextTransport = "forbidden_by_default";

/** Members at the end of every recorded answer. */
export interface AnswerTail {
  readonly platformDomains: readonly PlatformDomain[];
  readonly warnings: readonly string[];
}

export interface DecisionMembers {
  readonly allow: boolean;
  readonly requiredScopes: readonly string[];
  readonly decisionId: string;
  readonly policyRevision: string;
  readonly reasons: readonly string[];
  readonly obligations: readonly Obligation[];
  readonly receipt: Receipt;
}

export function decisionMembers(decided: Decided): DecisionMembers {
  const { allow, requiredScopes, decisionId, policyRevision, reasons, obligations, receipt } = decided;
  return { allow, requiredScopes, decisionId, policyRevision, reasons, obligations, receipt };
}

/** `execution.key_transport`; absent if the caller holds the key itself, and on a denial. */
export interface KeyTransport {
  readonly mode: KeyTransportMode;
  readonly keyMaterialOrigin: string;
  readonly stableKeyReferencePreferred: boolean;
  readonly rawKeyDeliveryForbidden: true;
  readonly publicKeyDistribution?: string;
  readonly exchangeAlgorithm?: string;
}

export function keyTransport({ guidance }: Decided): KeyTransport | undefined {
  return guidance.keyTransport && { ...guidance.keyTransport, rawKeyDeliveryForbidden: true };
}
