/** Strict parsers of base64 (RFC 4648 §4), numbers and times: each value has one text. */
import { createHash } from "node:crypto";

/** Undefined unless the text is padded base64 without line breaks. */
export function parseBase64(text: string): Uint8Array | undefined {
  const bytes = Buffer.from(text, "base64");
  // Node's decoder skips invalid characters; only text that encodes back is canonical.
  return bytes.toString("base64") === text ? bytes : undefined;
}

export function formatBase64(bytes: Uint8Array): string {
  return bytes.toBase64();
}

/** Returns the text of UTF-8 bytes, which may be in shared memory; text unchanged. */
export function utf8Text(content: string | Uint8Array): string {
  if (typeof content === "string") return content;
  return Buffer.from(content.buffer, content.byteOffset, content.length).toString("utf8");
}

/** Parses a decimal number without leading zeros, up to 2^53 - 1; undefined for any other text. */
export function parseDecimal(text: string): number | undefined {
  if (!/^(0|[1-9][0-9]{0,15})$/.test(text)) return undefined;
  const number = Number(text);
  return Number.isSafeInteger(number) ? number : undefined;
}

/** Whether the text is a time in the form of records, in which text order is time order. */
export function isMoment(text: unknown): text is string {
  if (typeof text !== "string" || !/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/.test(text)) return false;
  const ms = Date.parse(text);
  return !Number.isNaN(ms) && new Date(ms).toISOString() === text;
}

/** Returns the 32 bytes of an unpadded, canonical base64url SHA-256; undefined for any other text. */
export function parseThumbprint(text: string): Buffer | undefined {
  if (text.length !== 43) return undefined;
  const bytes = Buffer.from(text, "base64url");
  return bytes.length === 32 && bytes.toString("base64url") === text ? bytes : undefined;
}

/** SHA-256 of a certificate's DER, 32 bytes (RFC 8705 §3.1). */
export function thumbprintOf(der: Uint8Array): Buffer {
  return createHash("sha256").update(der).digest();
}
