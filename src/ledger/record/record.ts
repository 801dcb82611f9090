/** The record: exactly the members of `StoredRecord` in canonical JSON. A leaf commits to its bytes. */
import { hash } from "node:crypto";
import type { RecordId } from "../../base/ids.ts";
import type { JsonObject } from "../../base/json.ts";
import { formatBase64 } from "../../base/text-forms.ts";
import type { RecordKind } from "../ports/record.ts";
import type { EncodedRecord } from "../ports/store.ts";
import { canonicalText } from "./canonical.ts";

/** What sequencing adds to a record, under the lock of the log's head. */
export interface LogPosition {
  /** Origin of the log. */
  readonly log: string;
  /** RFC 3339 with milliseconds, UTC. */
  readonly recordedAt: string;
}

type RecordSource = Omit<EncodedRecord, "kind"> & { readonly kind: RecordKind };

/** Canonical bytes of a record, written out because the order of members never changes. */
export function recordBytes(record: RecordSource, { log, recordedAt }: LogPosition): Uint8Array {
  const { caller, request, outcome } = record;
  const text =
    `{"caller":${canonicalText(caller)},"kind":${canonicalText(record.kind)}` +
    `,"log":${canonicalText(log)},"outcome":${outcome},"record_id":${canonicalText(record.recordId)}` +
    `,"recorded_at":${canonicalText(recordedAt)},"request":${request}` +
    `,"request_digest":${canonicalText(digest(request))},"request_id":${canonicalText(record.requestId)}` +
    `,"route":${canonicalText(record.route)},"tenant_id":${canonicalText(record.tenantId)}}`;
  return Buffer.from(text, "utf8");
}

/**
 * The first record of every log. It binds the opaque origin to the tenant, and names the call that opened the log and
 * the first signing key; its request is empty.
 *
 * @param publicKey 32 bytes; undefined if nothing is signed yet, as in logs from before the key was recorded
 */
export function genesisRecordBytes(
  recordId: RecordId,
  first: EncodedRecord,
  position: LogPosition,
  publicKey: Uint8Array | undefined,
): Uint8Array {
  const outcome = canonicalText(publicKey === undefined ? {} : { public_key: formatBase64(publicKey) });
  return recordBytes({ ...first, kind: "genesis", recordId, request: "{}", outcome }, position);
}

/** `sha256:` and the hexadecimal SHA-256 of the canonical bytes of a normalized request, the same in any language. */
export function requestDigest(request: JsonObject): string {
  return digest(canonicalText(request));
}

function digest(text: string): string {
  return `sha256:${hash("sha256", text, "hex")}`;
}
