/** What an answer says beside its receipt, held against the record that the receipt proves. */
import { isDeepStrictEqual } from "node:util";
import type { Caller } from "../../base/caller.ts";
import type { SnakeCase } from "../../base/json.ts";
import type { StoredRecord } from "../../ledger/ports/record.ts";
import type { EvidenceAnswer } from "../evidence.ts";
import type { KeyAccessPlan } from "../key-access.ts";
import type { PolicyResolution, ProtectionPlan } from "../protection.ts";
import type { RegistrationAnswer } from "../registration.ts";

type Json = Readonly<Record<string, unknown>>;

type Answer = ProtectionPlan | PolicyResolution | KeyAccessPlan | RegistrationAnswer | EvidenceAnswer;
type PartName = "decision" | "execution" | "handling" | "registration" | "ingestion";

type PathIn<Holder, Part extends string> =
  Holder extends Readonly<Record<Part, infer Inner>> ? `${Part}.${SnakeCase<keyof Inner & string>}` : never;
type PathOf<Part> = Part extends PartName ? PathIn<Answer, Part> : never;

/** What no record has, so that nothing is said of it: configuration, scopes, and the receipt itself. */
type Unrecorded =
  | (PathOf<PartName> & `${string}.${"receipt" | "required_scopes"}`)
  | "decision.policy_inputs"
  | "ingestion.send_only";

/** What an answer says of its caller: no attributes. */
type AnsweredCaller = `caller.${SnakeCase<keyof Omit<Caller, "attributes" | "declaredAttributes">>}`;

/** Every member of an answer is compared, or listed as unrecorded. */
type Compared = Exclude<PathOf<PartName>, Unrecorded> | AnsweredCaller | "status";

type SummaryOf<Holder> = Holder extends { readonly requestSummary: infer Summary } ? SnakeCase<keyof Summary> : never;
type SummaryMember = Exclude<SummaryOf<Answer>, "artifact_locator_present">;

/** The values that the record allows each member. */
type Rows<Name extends string> = Readonly<Record<Name, readonly [unknown, ...unknown[]]>>;

/** Where the answer to each kind of record says what came of it, and the members that it never leaves out. */
const answers: Readonly<Partial<Record<string, { readonly holder: string; readonly always: readonly string[] }>>> = {
  decision: { holder: "decision", always: ["decision_id", "allow", "policy_revision", "reasons"] },
  registration: { holder: "registration", always: ["accepted"] },
  evidence: { holder: "ingestion", always: ["accepted"] },
};

const keyTransport = "execution.key_transport";
const obligations = "decision.obligations";

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
      // Without key transport the caller holds the key itself, and without obligations it has none: absence says so.
      const absent =
        path === obligations ? [] : path === keyTransport && whole.execution !== undefined ? {} : undefined;
      const value = at(whole, path) ?? absent;
      const isNeeded = path.startsWith(`${holder}.`) && always.includes(path.slice(holder.length + 1));
      if (value === undefined) return isNeeded;
      return !values.some((expected) => isDeepStrictEqual(value, expected));
    })
    .map(([path]) => path);
}

/** What the answer says of caller and outcome; members that the record says nothing of, with undefined, are left out. */
function outcomeRows(record: Json, holder: string): readonly Row[] {
  const caller = objectOf(record.caller);
  const outcome = objectOf(record.outcome);
  const request = objectOf(record.request);
  const guidance = objectOf(outcome.guidance);
  const isDecision = holder === "decision";
  const rows: Rows<Exclude<Compared, keyof typeof fixed>> = {
    "caller.tenant_id": [record.tenant_id],
    "caller.principal_id": [caller.principal_id],
    // On the routes that know retries these two are the retry's.
    "caller.subject": [isDecision ? caller.subject : undefined],
    "caller.auth_source": [isDecision ? caller.auth_source : undefined],
    "caller.scopes": [isDecision ? outcome.caller_scopes : undefined],
    "decision.decision_id": [isDecision ? record.record_id : undefined],
    "decision.allow": [outcome.allow],
    "decision.policy_revision": [outcome.policy_revision],
    // A deployment may keep the reasons to itself.
    "decision.reasons": [outcome.reasons, ...(outcome.reasons === undefined ? [] : [[]])],
    [obligations]: [isDecision ? (outcome.obligations ?? []) : undefined],
    "decision.key_reference_present": [isDecision ? request.key_reference !== undefined : undefined],
    "decision.operation": [isDecision ? request.operation : undefined],
    "decision.handling_mode": [guidance.handling_mode],
    "decision.enforcement_mode": [guidance.enforcement_mode],
    "decision.required_actions": [guidance.required_actions],
    "execution.protect_locally": [outcome.allow],
    "execution.local_cryptographic_operation": [outcome.allow],
    "execution.local_enforcement_library": [guidance.local_enforcement_library],
    "execution.send_only": [guidance.send_only],
    "execution.artifact_profile": [guidance.artifact_profile],
    "execution.key_strategy": [guidance.key_strategy],
    "execution.policy_resolution": [guidance.policy_resolution],
    "execution.authorization_strategy": [guidance.authorization_strategy],
    [keyTransport]: [outcome.guidance === undefined ? undefined : objectOf(guidance.key_transport)],
    "handling.protect_locally": [outcome.allow],
    "handling.bind_policy_to": [guidance.bind_policy_to],
    "handling.evidence_expected": [guidance.evidence_expected],
    "registration.accepted": [holder === "registration" ? outcome.accepted : undefined],
    "ingestion.accepted": [holder === "ingestion" ? outcome.accepted : undefined],
    ...acceptanceRows(holder, request, outcome),
  };
  return rowsOf({ ...rows, ...fixed }).filter(([, value]) => value !== undefined);
}

/** What no answer of the service ever says otherwise, whatever was asked: content does not come here. */
const fixed = {
  status: ["ready"],
  "decision.plaintext_transport": ["forbidden_by_default"],
  "execution.send_plaintext_to_platform": [false],
  "execution.platform_role": ["authorize_only"],
  "handling.plaintext_transport": ["forbidden_by_default"],
  "registration.artifact_transport": ["metadata_only"],
  "registration.send_plaintext_to_platform": [false],
  "ingestion.plaintext_transport": ["forbidden_by_default"],
} satisfies Partial<Rows<Compared>>;

/** What follows from what was registered or evidenced, and from what became of its citation. */
function acceptanceRows(
  holder: string,
  request: Json,
  outcome: Json,
): Rows<"registration.catalog_actions" | "registration.evidence_expected" | "ingestion.correlate_by"> {
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
  const isRegistration = holder === "registration";
  const correlations = [...(isMatched ? ["decision_id"] : []), ...named, ...resource];
  return {
    "registration.catalog_actions": [isRegistration ? (outcome.accepted === true ? actions : []) : undefined],
    "registration.evidence_expected": [isRegistration && !isMatched ? expected : undefined],
    "ingestion.correlate_by": [isRegistration ? undefined : correlations],
  };
}

/** What the summary says of the request. What the request did not have, its summary does not have. */
function requestRows(record: Json): readonly Row[] {
  const request = objectOf(record.request);
  const workload = objectOf(request.workload);
  const resource = objectOf(request.resource);
  const outcome = objectOf(record.outcome);
  const guidance = objectOf(outcome.guidance);
  const rows: Rows<SummaryMember> = {
    operation: [request.operation],
    event_type: [request.event_type],
    workload_application: [workload.application],
    workload_environment: [workload.environment],
    workload_component: [workload.component],
    resource_kind: [resource.kind],
    resource_id: [resource.id],
    mime_type: [resource.mime_type],
    purpose: [request.purpose],
    label_count: [Object.keys(objectOf(request.labels)).length],
    attribute_count: [Object.keys(objectOf(request.attributes)).length],
    content_digest_present: [request.content_digest !== undefined],
    content_size_bytes: [request.content_size_bytes],
    artifact_kind: [request.artifact_kind],
    artifact_digest: [request.artifact_digest],
    artifact_digest_present: [request.artifact_digest !== undefined],
    preferred_artifact_profile: [request.preferred_artifact_profile ?? guidance.artifact_profile],
    artifact_profile: [guidance.artifact_profile ?? request.artifact_profile],
    // Of an artifact that came with the call it was derived.
    artifact_cid: [outcome.artifact_cid ?? request.artifact_cid],
    artifact_merkle_root_cid: [request.artifact_merkle_root_cid],
    decision_id_present: [request.decision_id !== undefined],
    key_reference_present: [request.key_reference !== undefined],
    outcome: [request.outcome],
    occurred_at: [request.occurred_at],
  };
  return rowsOf(rows).map(([member, ...values]) => [`request_summary.${member}`, ...values]);
}

/** Parts that only answers to other kinds of records have: nothing that they say has been recorded. */
function foreignRows(holder: string): readonly Row[] {
  const parts: readonly PartName[] = ["decision", "execution", "handling", "registration", "ingestion"];
  const own = holder === "decision" ? ["decision", "execution", "handling"] : [holder];
  return parts.filter((part) => !own.includes(part)).map((part) => [part, undefined]);
}

function rowsOf(rows: Rows<string>): readonly Row[] {
  return Object.entries(rows).map(([name, values]) => [name, ...values]);
}

function at(value: Json, path: string): unknown {
  return path.split(".").reduce<unknown>((inner, member) => objectOf(inner)[member], value);
}

function objectOf(value: unknown): Json {
  return typeof value === "object" && value !== null ? (value as Json) : {};
}
