/** What an answer says beside its receipt, held against the record that the receipt proves. */
import { isDeepStrictEqual } from "node:util";
import type { StoredRecord } from "../../ledger/ports/record.ts";

type Json = Readonly<Record<string, unknown>>;

/** Where the answer to each kind of record says what came of it, and the members that it never leaves out. */
const answers: Readonly<Partial<Record<string, { readonly holder: string; readonly always: readonly string[] }>>> = {
  decision: { holder: "decision", always: ["decision_id", "allow", "policy_revision", "reasons"] },
  registration: { holder: "registration", always: ["accepted"] },
  evidence: { holder: "ingestion", always: ["accepted"] },
};

const keyTransport = "execution.key_transport";

/** A member of an answer, and the values that the record allows it; `undefined` among them: it may not be there. */
type Row = readonly [path: string, ...values: unknown[]];

/**
 * Names the members of the answer that are not what the record says, such as `decision.allow`. What an answer of the
 * record's route does not have may not be there either; what it has beyond the record is not looked at: configuration,
 * scopes, warnings.
 *
 * @param answer of a JSON route, or its `decision`, `registration` or `ingestion` alone
 */
export function answerDifferences(answer: unknown, record: StoredRecord): readonly string[] {
  const members = objectOf(answer);
  const { holder, always } = answers[record.kind] ?? { holder: "receipt", always: [] };
  const whole = members.receipt === undefined ? members : { [holder]: members };
  return [...outcomeRows(objectOf(record), holder), ...requestRows(objectOf(record)), ...foreignRows(holder)]
    .filter(([path, ...values]) => {
      // Without key transport the caller holds the key itself: its absence says something too.
      const isAbsence = path === keyTransport && whole.execution !== undefined;
      const value = at(whole, path) ?? (isAbsence ? {} : undefined);
      const isNeeded = path.startsWith(`${holder}.`) && always.includes(path.slice(holder.length + 1));
      if (value === undefined) return isNeeded;
      return !values.some((expected) => isDeepStrictEqual(value, expected));
    })
    .map(([path]) => path);
}

/** What the answer says of caller and outcome; members that the record has nothing of are left out. */
function outcomeRows(record: Json, holder: string): readonly Row[] {
  const caller = objectOf(record.caller);
  const outcome = objectOf(record.outcome);
  const request = objectOf(record.request);
  const guidance = objectOf(outcome.guidance);
  const isDecision = holder === "decision";
  const rows: readonly Row[] = [
    ["caller.tenant_id", record.tenant_id],
    ["caller.principal_id", caller.principal_id],
    // On the routes that know retries these two are the retry's.
    ["caller.subject", isDecision ? caller.subject : undefined],
    ["caller.auth_source", isDecision ? caller.auth_source : undefined],
    ["caller.scopes", isDecision ? outcome.caller_scopes : undefined],
    ["decision.decision_id", isDecision ? record.record_id : undefined],
    ["decision.allow", outcome.allow],
    ["decision.policy_revision", outcome.policy_revision],
    // A deployment may keep the reasons to itself.
    ["decision.reasons", outcome.reasons, ...(outcome.reasons === undefined ? [] : [[]])],
    ["decision.key_reference_present", isDecision ? request.key_reference !== undefined : undefined],
    ["decision.operation", isDecision ? request.operation : undefined],
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
    ...acceptanceRows(holder, request, outcome),
    ...fixedRows,
  ];
  return rows.filter(([, value]) => value !== undefined);
}

/** What no answer of the service ever says otherwise, whatever was asked: content does not come here. */
const fixedRows: readonly Row[] = [
  ["status", "ready"],
  ["decision.plaintext_transport", "forbidden_by_default"],
  ["execution.send_plaintext_to_platform", false],
  ["execution.platform_role", "authorize_only"],
  ["handling.plaintext_transport", "forbidden_by_default"],
  ["registration.artifact_transport", "metadata_only"],
  ["registration.send_plaintext_to_platform", false],
  ["ingestion.plaintext_transport", "forbidden_by_default"],
];

/** What follows from what was registered or evidenced, and from what became of its citation. */
function acceptanceRows(holder: string, request: Json, outcome: Json): readonly Row[] {
  const isMatched = outcome.citation === "matched";
  const named = ["artifact_digest", "artifact_cid", "artifact_merkle_root_cid"].filter(
    (name) => request[name] !== undefined,
  );
  const resource = objectOf(request.resource).id === undefined ? [] : ["resource.id"];
  const actions = [
    "record_artifact_metadata",
    ...(outcome.artifact_size_bytes === undefined ? [] : ["derive_artifact_cid"]),
    ...(isMatched ? ["link_decision"] : []),
  ];
  // What a matched decision expects stands in its own record.
  const expected = outcome.accepted === true ? [request.operation] : ["deny"];
  return holder === "registration"
    ? [
        ["registration.catalog_actions", outcome.accepted === true ? actions : []],
        ["registration.evidence_expected", isMatched ? undefined : expected],
      ]
    : [["ingestion.correlate_by", [...(isMatched ? ["decision_id"] : []), ...named, ...resource]]];
}

/** What the summary says of the request. What the request did not have, its summary does not have. */
function requestRows(record: Json): readonly Row[] {
  const request = objectOf(record.request);
  const workload = objectOf(request.workload);
  const resource = objectOf(request.resource);
  const outcome = objectOf(record.outcome);
  const guidance = objectOf(outcome.guidance);
  const rows: readonly Row[] = [
    ["operation", request.operation],
    ["event_type", request.event_type],
    ["workload_application", workload.application],
    ["workload_environment", workload.environment],
    ["workload_component", workload.component],
    ["resource_kind", resource.kind],
    ["resource_id", resource.id],
    ["mime_type", resource.mime_type],
    ["purpose", request.purpose],
    ["label_count", Object.keys(objectOf(request.labels)).length],
    ["attribute_count", Object.keys(objectOf(request.attributes)).length],
    ["content_digest_present", request.content_digest !== undefined],
    ["content_size_bytes", request.content_size_bytes],
    ["artifact_kind", request.artifact_kind],
    ["artifact_digest", request.artifact_digest],
    ["artifact_digest_present", request.artifact_digest !== undefined],
    ["preferred_artifact_profile", request.preferred_artifact_profile ?? guidance.artifact_profile],
    ["artifact_profile", guidance.artifact_profile ?? request.artifact_profile],
    // Of an artifact that came with the call it was derived.
    ["artifact_cid", outcome.artifact_cid ?? request.artifact_cid],
    ["artifact_merkle_root_cid", request.artifact_merkle_root_cid],
    ["decision_id_present", request.decision_id !== undefined],
    ["key_reference_present", request.key_reference !== undefined],
    ["outcome", request.outcome],
    ["occurred_at", request.occurred_at],
  ];
  return rows.map(([member, ...values]) => [`request_summary.${member}`, ...values]);
}

/** Parts that only answers to other kinds of records have: nothing that they say has been recorded. */
function foreignRows(holder: string): readonly Row[] {
  const parts = ["decision", "execution", "handling", "registration", "ingestion"];
  const own = holder === "decision" ? ["decision", "execution", "handling"] : [holder];
  return parts.filter((part) => !own.includes(part)).map((part) => [part, undefined]);
}

function at(value: Json, path: string): unknown {
  return path.split(".").reduce<unknown>((inner, member) => objectOf(inner)[member], value);
}

function objectOf(value: unknown): Json {
  return typeof value === "object" && value !== null ? (value as Json) : {};
}
