/** What an answer says beside its receipt, held against the record that the receipt proves. */
import { isDeepStrictEqual } from "node:util";
import type { StoredRecord } from "./ports.ts";

type Json = Readonly<Record<string, unknown>>;

/** Where the answer to each kind of record says what came of it, and the members that it never leaves out. */
const answers: Readonly<Partial<Record<string, { readonly holder: string; readonly always: readonly string[] }>>> = {
  decision: { holder: "decision", always: ["decision_id", "allow", "policy_revision", "reasons"] },
  registration: { holder: "registration", always: ["accepted"] },
  evidence: { holder: "ingestion", always: ["accepted"] },
};

const keyTransport = "execution.key_transport";

/**
 * Names the members of the answer that are not what the record says, such as `decision.allow`. Members that the record
 * does not have are not looked at: summaries of configuration, scopes, warnings.
 *
 * @param answer of a JSON route, or its `decision`, `registration` or `ingestion` alone
 */
export function answerDifferences(answer: unknown, record: StoredRecord): readonly string[] {
  const told = objectOf(answer);
  const { holder, always } = answers[record.kind] ?? { holder: "receipt", always: [] };
  const whole = told.receipt === undefined ? told : { [holder]: told };
  return recorded(objectOf(record), holder)
    .filter(([path, values]) => {
      // Without key transport the caller holds the key itself: its absence says something too.
      const isAbsence = path === keyTransport && whole.execution !== undefined;
      const value = at(whole, path) ?? (isAbsence ? {} : undefined);
      const isNeeded = path.startsWith(`${holder}.`) && always.includes(path.slice(holder.length + 1));
      if (value === undefined) return isNeeded;
      return !values.some((expected) => isDeepStrictEqual(value, expected));
    })
    .map(([path]) => path);
}

/** Members of an answer with the values that the record allows them; those that the record has nothing of are left out. */
function recorded(record: Json, holder: string): readonly (readonly [path: string, values: readonly unknown[]])[] {
  const outcome = objectOf(record.outcome);
  const request = objectOf(record.request);
  const guidance = objectOf(outcome.guidance);
  const workload = objectOf(request.workload);
  const resource = objectOf(request.resource);
  const rows: readonly (readonly [string, ...unknown[]])[] = [
    ["caller.tenant_id", record.tenant_id],
    // Subject and source are those of a retry, where the answer is one's.
    ["caller.principal_id", objectOf(record.caller).principal_id],
    ["decision.decision_id", holder === "decision" ? record.record_id : undefined],
    ["decision.allow", outcome.allow],
    ["decision.policy_revision", outcome.policy_revision],
    // A deployment may keep the reasons to itself.
    ["decision.reasons", outcome.reasons, ...(outcome.reasons === undefined ? [] : [[]])],
    ["decision.operation", holder === "decision" ? request.operation : undefined],
    ["decision.handling_mode", guidance.handling_mode],
    ["decision.enforcement_mode", guidance.enforcement_mode],
    ["decision.required_actions", guidance.required_actions],
    ["execution.protect_locally", outcome.allow],
    ["execution.local_cryptographic_operation", outcome.allow],
    ["execution.local_enforcement_library", guidance.local_enforcement_library],
    ["execution.send_only", guidance.send_only],
    ["execution.artifact_profile", guidance.artifact_profile],
    ["execution.key_strategy", guidance.key_strategy],
    ["execution.policy_resolution", guidance.policy_resolution],
    ["execution.authorization_strategy", guidance.authorization_strategy],
    [keyTransport, outcome.guidance === undefined ? undefined : objectOf(guidance.key_transport)],
    ["handling.protect_locally", outcome.allow],
    ["handling.bind_policy_to", guidance.bind_policy_to],
    ["handling.evidence_expected", guidance.evidence_expected],
    [`${holder}.accepted`, outcome.accepted],
    ["request_summary.operation", request.operation],
    ["request_summary.event_type", request.event_type],
    ["request_summary.workload_application", workload.application],
    ["request_summary.resource_kind", resource.kind],
    ["request_summary.resource_id", resource.id],
    ["request_summary.artifact_digest", request.artifact_digest],
    ["request_summary.artifact_cid", outcome.artifact_cid],
  ];
  return rows.flatMap(([path, ...values]) => (values[0] === undefined ? [] : [[path, values] as const]));
}

function at(value: Json, path: string): unknown {
  return path.split(".").reduce<unknown>((inner, member) => objectOf(inner)[member], value);
}

function objectOf(value: unknown): Json {
  return typeof value === "object" && value !== null ? (value as Json) : {};
}
