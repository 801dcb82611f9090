/** Records of operators' actions: erasures, releases of holds, key rotations, adopted anchors, accepted times. */
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
import type { AppendableRecord, TimedLog } from "../ports/store.ts";
import type { TreeHead } from "../tlog/tree-verify.ts";

/** Kinds that are never erased, and why. */
export const unerasable: Readonly<Partial<Record<RecordKind, string>>> = {
  genesis: "it ties the log to its tenant",
  erasure: "without it an erased record looks like a lost one",
  key_rotation: "it records up to which size the old key counts",
  anchor_adoption: "it records that no anchor confirmed the log",
  clock_acceptance: "it records which of the log's times come from a clock that was ahead",
  hold_release: "it records since when the held records could be erased",
};

interface ErasureTarget {
  readonly recordId: RecordId;
  readonly leafIndex: number;
  readonly kind: RecordKind;
  /** Answers that were stored with it. */
  readonly idempotencyRecords: number;
}

/** Most characters: a reason is a sentence, not a document. */
export const maxReasonLength = 1_024;
export const maxOperatorLength = 256;

/** Whether the text is valid in a statement, with this maximum length. */
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

/** The members that name the operator and the command. */
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

/** Reads a record of kind `erasure`; undefined for other kinds. */
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
 * Erased records of a log, walked from its beginning, whose erasure is still to come: it stands after its record.
 * Memory: these records.
 */
export class ErasedRecords<Place extends { readonly leafIndex: number }> {
  readonly #waiting = new Map<string, Place>();

  get size(): number {
    return this.#waiting.size;
  }

  /** The first without an erasure. */
  get first(): Place | undefined {
    const [first] = this.#waiting.values();
    return first;
  }

  /** Takes an erased record. Returns false if another one has its id. */
  add(recordId: string, place: Place): boolean {
    if (this.#waiting.has(recordId)) return false;
    this.#waiting.set(recordId, place);
    return true;
  }

  /** Takes an erasure. Returns what is wrong with it, or the leaf that it names, and whether that is of one of these. */
  erase(erasure: StoredRecord): { readonly leafIndex: number; readonly isErased: boolean } | string {
    const said = readErasure(erasure);
    if (said === undefined) return "does not say what it erases";
    const { recordId, leafIndex } = said;
    const place = this.#waiting.get(recordId);
    if (place !== undefined && place.leafIndex !== leafIndex) return "names the wrong leaf for what it erases";
    return { leafIndex, isErased: this.#waiting.delete(recordId) };
  }
}

/**
 * The record of a hold's end: from its leaf on, what the hold covered could be erased. It omits the hold's own reason:
 * its author did not know that it could never be erased.
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

/** The keys of a rotation. */
export interface RotatedKeys {
  /** New public key. 32 bytes, like the other. */
  readonly current: Uint8Array;
  readonly previous: Uint8Array;
}

/** Rotation of a log's signing key. */
interface Rotation extends RotatedKeys, Pick<ErasureOptions, "clock" | "random"> {
  /** Statement of the operator; undefined if the key file does not have it. */
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

/** The keys of a record of kind `key_rotation`; undefined if it names none. */
export function readRotation({ outcome }: StoredRecord): RotatedKeys | undefined {
  const [current, previous] = [readKey(outcome.public_key), readKey(outcome.previous_public_key)];
  return current === undefined || previous === undefined ? undefined : { current, previous };
}

/** The first signing key in a genesis record; undefined in logs from before it was recorded. */
export function readFirstKey({ outcome }: StoredRecord): Uint8Array | undefined | "malformed" {
  return outcome.public_key === undefined ? undefined : (readKey(outcome.public_key) ?? "malformed");
}

function readKey(value: JsonValue | undefined): Uint8Array | undefined {
  const bytes = typeof value === "string" ? parseBase64(value) : undefined;
  return bytes?.length === publicKeyBytes ? bytes : undefined;
}

/** Adoption of a log's state without an anchor that confirms it. */
interface Adoption extends TreeHead, ErasureOptions {
  readonly tenantId: TenantId;
}

export function adoptionRecord({ tenantId, size, root, reason, ...by }: Adoption): AppendableRecord {
  return {
    ...operatorRecord("anchor_adoption", "ledger anchor adopt", tenantId, by),
    request: { reason },
    outcome: { tree_size: size, root: formatBase64(root) },
  };
}

/** The record that a log continues although its newest time is in the future. */
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
