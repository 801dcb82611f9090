/** Records of what operators did: erasures, releases of holds, rotations of the key, adopted anchors, accepted times. */
import type { Clock } from "../../base/clock.ts";
import {
  isCleanText,
  newRecordId,
  type PrincipalId,
  parseRecordId,
  type RandomFill,
  type RecordId,
  type RequestId,
  type TenantId,
} from "../../base/ids.ts";
import type { JsonValue } from "../../base/json.ts";
import { formatBase64, parseBase64 } from "../../base/text-forms.ts";
import type { ErasureStatement, RecordKind, StoredRecord } from "../ports/record.ts";
import type { LegalHold } from "../ports/records-administration.ts";
import type { StoredTree, TimedLog } from "../ports/store.ts";
import type { AppendableRecord } from "./record.ts";

/** Kinds that are never erased, and why. */
export const unerasable: Readonly<Partial<Record<RecordKind, string>>> = {
  genesis: "it ties the log to its tenant",
  erasure: "without it nobody can tell an erased record from one that was lost",
  key_rotation: "it says up to where the old key counts",
  anchor_adoption: "it says that nothing outside the store vouched for the log",
  clock_acceptance: "it says which of the log's times are of a clock that was ahead",
  hold_release: "it says since when what was held could be erased",
};

/** What is erased. */
export interface ErasureTarget {
  readonly recordId: RecordId;
  readonly leafIndex: number;
  readonly kind: RecordKind;
  /** Answers that were kept with it. */
  readonly idempotencyRecords: number;
}

/** A reason is a sentence, not a document. Characters. */
export const maxReasonLength = 1_024;
export const maxOperatorLength = 256;

/** Whether the text may stand in a statement of this length. */
export function isStatementText(text: unknown, maxLength: number): text is string {
  return typeof text === "string" && text.trim() !== "" && text.length <= maxLength && isCleanText(text);
}

export interface ErasureOptions extends ErasureStatement {
  readonly clock: Clock;
  readonly random: RandomFill;
}

export function erasureRecord(
  tenantId: TenantId,
  { recordId: erased, leafIndex, kind, idempotencyRecords }: ErasureTarget,
  { reason, ...by }: ErasureOptions,
): AppendableRecord {
  return {
    ...operatorRecord("erasure", "ledger erase", tenantId, by),
    request: { record_id: erased, reason },
    outcome: { kind, leaf_index: leafIndex, kept_answers: idempotencyRecords },
  };
}

/** The members of a record that say which operator gave which command. */
function operatorRecord(
  kind: AppendableRecord["kind"],
  route: string,
  tenantId: TenantId,
  { operator, clock, random }: Omit<ErasureOptions, "reason">,
): Omit<AppendableRecord, "request" | "outcome"> {
  const recordId = newRecordId(clock, random);
  return {
    kind,
    recordId,
    tenantId,
    requestId: recordId as string as RequestId,
    caller: { principal_id: operator as PrincipalId, subject: operator, auth_source: "operator" },
    route,
  };
}

/** What a record of kind `erasure` says; undefined where it is none. */
export function readErasure({
  kind,
  request,
  outcome,
}: StoredRecord): Pick<ErasureTarget, "recordId" | "leafIndex"> | undefined {
  if (kind !== "erasure") return undefined;
  const recordId = typeof request.record_id === "string" ? parseRecordId(request.record_id) : undefined;
  const leafIndex = outcome.leaf_index;
  return recordId === undefined || typeof leafIndex !== "number" ? undefined : { recordId, leafIndex };
}

/**
 * The record that says that a legal hold ended: from its leaf on, what it covered could be erased. The hold's own reason
 * stays out: whoever wrote it was not told that it could never be erased.
 */
export function holdReleaseRecord(
  { tenantId, recordId: held, placedAtMs }: LegalHold,
  { reason, ...by }: ErasureOptions,
): AppendableRecord {
  return {
    ...operatorRecord("hold_release", "ledger hold release", tenantId, by),
    request: { ...(held !== undefined && { record_id: held }), reason },
    outcome: { placed_at: new Date(placedAtMs).toISOString() },
  };
}

/** The record that tells a log of a new signing key. */
export interface Rotation extends Pick<ErasureOptions, "clock" | "random"> {
  /** Public key from now on. 32 bytes, like the other. */
  readonly current: Uint8Array;
  /** The key that signed until now. */
  readonly previous: Uint8Array;
  /** Of whoever rotated; undefined where the key file does not have it. */
  readonly statement?: ErasureStatement | undefined;
}

export function rotationRecord(tenantId: TenantId, rotation: Rotation): AppendableRecord {
  const { current, previous, statement, clock, random } = rotation;
  const by = { operator: statement?.operator ?? "operator", clock, random };
  return {
    ...operatorRecord("key_rotation", "keys rotate", tenantId, by),
    request: statement === undefined ? {} : { reason: statement.reason },
    outcome: { public_key: formatBase64(current), previous_public_key: formatBase64(previous) },
  };
}

const publicKeyBytes = 32;

/** The keys that a record of kind `key_rotation` names; undefined where it names none. */
export function readRotation({ outcome }: StoredRecord): Pick<Rotation, "current" | "previous"> | undefined {
  const [current, previous] = [readKey(outcome.public_key), readKey(outcome.previous_public_key)];
  return current === undefined || previous === undefined ? undefined : { current, previous };
}

/** The key that a genesis record says to have signed from the beginning; undefined in logs from before it was named. */
export function readFirstKey({ outcome }: StoredRecord): Uint8Array | undefined | "malformed" {
  return outcome.public_key === undefined ? undefined : (readKey(outcome.public_key) ?? "malformed");
}

function readKey(value: JsonValue | undefined): Uint8Array | undefined {
  const bytes = typeof value === "string" ? parseBase64(value) : undefined;
  return bytes?.length === publicKeyBytes ? bytes : undefined;
}

/** What was adopted: nothing outside the store said any more that it was the newest state of the log. */
export interface Adoption extends StoredTree, ErasureOptions {
  readonly tenantId: TenantId;
}

export function adoptionRecord({ tenantId, size, root, reason, ...by }: Adoption): AppendableRecord {
  return {
    ...operatorRecord("anchor_adoption", "ledger anchor adopt", tenantId, by),
    request: { reason },
    outcome: { tree_size: size, root: formatBase64(root) },
  };
}

/** The record that says that a log goes on although its newest time has not come: until then it has no later one. */
export function clockAcceptanceRecord(
  { tenantId, lastRecordedAtMs }: TimedLog,
  { reason, ...by }: ErasureOptions,
): AppendableRecord {
  const timeOf = (ms: number) => new Date(ms).toISOString();
  return {
    ...operatorRecord("clock_acceptance", "ledger clock accept", tenantId, by),
    request: { reason },
    outcome: { accepted_time: timeOf(lastRecordedAtMs), clock_time: timeOf(by.clock.now()) },
  };
}
