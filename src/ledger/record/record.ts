/** The record: what happened, as exactly the members of `StoredRecord` in canonical JSON. A leaf commits to its bytes. */
import { hash } from "node:crypto";
import type { RecordId } from "../../base/ids.ts";
import type { JsonObject } from "../../base/json.ts";
import { formatBase64 } from "../../base/text-forms.ts";
import type { Idempotency, NewRecord, RecordCaller, RecordKind } from "../ports/record.ts";
import type { SearchTerm } from "../ports/search.ts";
import { canonicalText } from "./canonical.ts";

/** What sequencing adds to a record, under the lock of the log's head. */
export interface LogPosition {
  /** Origin of the log. */
  readonly log: string;
  /** RFC 3339 with milliseconds, UTC. */
  readonly recordedAt: string;
}

/** What the ledger can append: what callers did, and what the operator did to the log itself. */
export type AppendableRecord = Omit<NewRecord, "kind" | "caller"> & {
  readonly kind: Exclude<RecordKind, "genesis">;
  readonly caller: RecordCaller;
};

/** A record whose request and outcome are canonical JSON already: ready to be sequenced. */
export interface EncodedRecord extends Omit<AppendableRecord, "request" | "outcome" | "idempotency"> {
  /** Canonical JSON, like the outcome. */
  readonly request: string;
  readonly outcome: string;
  readonly idempotency?: EncodedIdempotency;
  /** Search terms besides the caller's; absent where there are none. */
  readonly terms?: readonly SearchTerm[];
}

/** As `Idempotency`, with the answer as JSON text, which the store seals without reading it. */
export type EncodedIdempotency = Omit<Idempotency, "answer"> & { readonly answer: string };

/** What a record is made of. */
type RecordSource = Omit<EncodedRecord, "kind"> & { readonly kind: RecordKind };

/**
 * Canonical bytes of a record: written out, because the order of its members never changes. Those that the format does
 * not have are left out.
 */
export function recordBytes(record: RecordSource, { log, recordedAt }: LogPosition): Uint8Array {
  const { principal_id, subject, auth_source } = record.caller;
  const { request, outcome } = record;
  const text =
    `{"caller":${canonicalText({ auth_source, principal_id, subject })},"kind":${canonicalText(record.kind)}` +
    `,"log":${canonicalText(log)},"outcome":${outcome},"record_id":${canonicalText(record.recordId)}` +
    `,"recorded_at":${canonicalText(recordedAt)},"request":${request}` +
    `,"request_digest":${canonicalText(digest(request))},"request_id":${canonicalText(record.requestId)}` +
    `,"route":${canonicalText(record.route)},"tenant_id":${canonicalText(record.tenantId)}}`;
  return Buffer.from(text, "utf8");
}

/**
 * The first record of every log. It ties the opaque origin to the tenant, names the call that opened the log, and the
 * key that signs it from the beginning; it asks nothing, so its request is empty.
 *
 * @param publicKey 32 bytes; undefined where nothing is signed yet, as in logs from before the key was named
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

/** `sha256:` and the hexadecimal SHA-256 of the canonical bytes of a normalized request: the same from any language. */
export function requestDigest(request: JsonObject): string {
  return digest(canonicalText(request));
}

function digest(text: string): string {
  return `sha256:${hash("sha256", text, "hex")}`;
}
