/** Base64 (RFC 4648 §4), numbers and times, read strictly: one text for every value. */
import { createHash } from "node:crypto";

/** Bytes of a padded base64 text without line breaks; undefined for any other text. */
export function parseBase64(text: string): Uint8Array | undefined {
  const bytes = Buffer.from(text, "base64");
  // Node's reader skips what it does not know; only the text that writing gives again is canonical.
  return bytes.toString("base64") === text ? bytes : undefined;
}

/** Base64 text of bytes. */
export function formatBase64(bytes: Uint8Array): string {
  return bytes.toBase64();
}

/** The text of UTF-8, also where threads share its memory; a text as it is. */
export function utf8Text(content: string | Uint8Array): string {
  if (typeof content === "string") return content;
  return Buffer.from(content.buffer, content.byteOffset, content.length).toString("utf8");
}

/** A decimal number without needless zeros, up to 2^53 - 1; undefined for any other text. */
export function parseDecimal(text: string): number | undefined {
  if (!/^(0|[1-9][0-9]{0,15})$/.test(text)) return undefined;
  const number = Number(text);
  return Number.isSafeInteger(number) ? number : undefined;
}

/** Whether the text is a time as records have it: only then do texts compare as times do. */
export function isMoment(text: unknown): text is string {
  if (typeof text !== "string" || !/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/.test(text)) return false;
  const ms = Date.parse(text);
  return !Number.isNaN(ms) && new Date(ms).toISOString() === text;
}

/** Returns the 32 bytes behind an unpadded, canonical base64url SHA-256; undefined where the text is none. */
export function parseThumbprint(text: string): Buffer | undefined {
  if (text.length !== 43) return undefined;
  const bytes = Buffer.from(text, "base64url");
  return bytes.length === 32 && bytes.toString("base64url") === text ? bytes : undefined;
}

/** SHA-256 of a certificate's DER, 32 bytes (RFC 8705 §3.1). */
export function thumbprintOf(der: Uint8Array): Buffer {
  return createHash("sha256").update(der).digest();
}
