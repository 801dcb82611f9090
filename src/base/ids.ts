/** Identifiers as branded types, so that the compiler refuses a tenant id in place of a principal id. */
import { randomFillSync } from "node:crypto";
import { v7 } from "uuid";
import type { Clock } from "./clock.ts";

declare const brand: unique symbol;
type Branded<Name extends string> = string & { readonly [brand]: Name };

/** 1 to 128 of `[A-Za-z0-9._:-]`, starting with a letter or digit; compared byte for byte; never used as a path. */
export type TenantId = Branded<"TenantId">;
/** Principal within a tenant: 1 to 256 characters, none of them a control character. */
export type PrincipalId = Branded<"PrincipalId">;
/** UUIDv7 of a record in the ledger. The `decision_id` of a decision is the id of its record. */
export type RecordId = Branded<"RecordId">;
/** 1 to 128 of `[A-Za-z0-9._-]`; the caller's own if it is valid. */
export type RequestId = Branded<"RequestId">;

const tenantIdPattern = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/;
const requestIdPattern = /^[A-Za-z0-9._-]{1,128}$/;
/** C0, DELETE and C1: characters that logs and terminals may interpret. */
const controlCharacter = /\p{Cc}/u;
const recordIdPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** Undefined if the text is not a tenant id. */
export function parseTenantId(text: string): TenantId | undefined {
  return tenantIdPattern.test(text) ? (text as TenantId) : undefined;
}

/** Undefined if the text is not a principal id. */
export function parsePrincipalId(text: string): PrincipalId | undefined {
  const fits = text.length >= 1 && text.length <= 256 && isCleanText(text) && !controlCharacter.test(text);
  return fits ? (text as PrincipalId) : undefined;
}

/** Undefined if the text is not a request id. */
export function parseRequestId(text: string): RequestId | undefined {
  return requestIdPattern.test(text) ? (text as RequestId) : undefined;
}

/** Undefined if the text is not a canonical UUIDv7 (RFC 9562 §5.7). */
export function parseRecordId(text: string): RecordId | undefined {
  return recordIdPattern.test(text) ? (text as RecordId) : undefined;
}

/** Fills the array with random bytes and returns it. */
export type RandomFill = (bytes: Uint8Array) => Uint8Array;

export const systemRandom: RandomFill = (bytes) => randomFillSync(bytes);

/** Reused for every id; the content is copied before the next. */
const drawn = new Uint8Array(16);
const made = Buffer.alloc(16);

export function newRecordId(clock: Clock, random: RandomFill): RecordId {
  const hex = v7({ msecs: clock.now(), random: random(drawn) }, made).toString("hex");
  const id = `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
  return id as RecordId;
}

/** Creation time of the id by its creator's clock, in milliseconds since the Unix epoch. */
export function recordIdTimeMs(id: RecordId): number {
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
}

export function newRequestId(clock: Clock, random: RandomFill): RequestId {
  return newRecordId(clock, random) as string as RequestId;
}

/** Whether the text is well-formed UTF-16 without U+0000, which every store and RFC 8785 can hold. */
export function isCleanText(text: string): boolean {
  return text.isWellFormed() && !text.includes("\0");
}

/** Requests up to this many bytes, such as those for ids, are served from the buffer. */
const maxBufferedBytes = 16;

/**
 * Buffers a random source for small requests, because a call costs more than the bytes. Used bytes are wiped and never
 * returned again. Keys and openings are larger, so they never come from the buffer.
 *
 * @param sizeBytes drawn at a time; at least 16
 */
export function bufferedRandom(fill: RandomFill, sizeBytes = 4096): RandomFill {
  const drawn = new Uint8Array(sizeBytes);
  let used = sizeBytes;
  return (bytes) => {
    if (bytes.byteLength > maxBufferedBytes) return fill(bytes);
    if (used + bytes.byteLength > sizeBytes) {
      fill(drawn);
      used = 0;
    }
    const end = used + bytes.byteLength;
    bytes.set(drawn.subarray(used, end));
    drawn.fill(0, used, end);
    used = end;
    return bytes;
  };
}
