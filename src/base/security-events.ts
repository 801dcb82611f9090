/**
 * The closed list of security events: their log lines have `category: "security"` and the name as `event`, so that one
 * filter finds them all. `docs/logs.md` describes each.
 */
import type { Reason } from "./errors.ts";

export const securityEvents = [
  "credentials_refused",
  "proof_of_possession_failed",
  "tenant_mismatch",
  "scope_missing",
  "session_refused",
  "session_locked_out",
  "identity_headers_ignored",
  "forwarded_certificate_ignored",
  "issuer_overreached",
  "operator_refused",
  "operator_signed_in",
  "policy_changed",
  "policy_refused",
  "policy_alert",
  "denials_spiked",
  "policy_disagreement",
  "ledger_key_changed",
  "ledger_key_missing",
  "credentials_changed",
  "credentials_not_taken",
  "records_erased",
  "ledger_searched",
] as const;

export type SecurityEvent = (typeof securityEvents)[number];

type SecurityFields = { readonly category: "security"; readonly event: SecurityEvent };

/** Members of the event's log line. */
export function securityFields(event: SecurityEvent): SecurityFields {
  return { category: "security", event };
}

const ofReasons: Partial<Record<Reason, SecurityFields>> = {
  missing_token: securityFields("credentials_refused"),
  invalid_token: securityFields("credentials_refused"),
  expired_token: securityFields("credentials_refused"),
  proof_of_possession_failed: securityFields("proof_of_possession_failed"),
  tenant_mismatch: securityFields("tenant_mismatch"),
  missing_scope: securityFields("scope_missing"),
  invalid_client: securityFields("session_refused"),
};
const lockedOut = securityFields("session_locked_out");

/** The security event of a refused call; undefined if it is none. */
export function securityOf(reason: Reason, rpc: string): SecurityFields | undefined {
  return reason === "rate_limited" && rpc === "SessionService/CreateSession" ? lockedOut : ofReasons[reason];
}
