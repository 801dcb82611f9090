/** Strict parsers of base64 (RFC 4648 §4), numbers and times. Each value but an RFC 3339 time has one text. */
import { createHash, hash } from "node:crypto";

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

/** RFC 3339 §5.6 `date-time`, with `T` and `Z` in either case. A space instead of `T` is refused. */
const pattern = /^(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2}):(\d{2})(?:\.(\d+))?(?:[Zz]|([+-])(\d{2}):(\d{2}))$/;

const zeroTimeMs = -62_135_596_800_000;
const minuteMs = 60_000;
const dayMs = 86_400_000;

/**
 * Milliseconds since the Unix epoch; undefined if the text is not an RFC 3339 date-time. Dates must exist. Second 60 is
 * accepted only for possible leap seconds (RFC 3339 §5.7), at 23:59:60 UTC on the last day of a month, and reads as the
 * next instant. Digits beyond milliseconds are dropped.
 */
export function parseTimestamp(text: string): number | undefined {
  const match = pattern.exec(text);
  if (match === null) return undefined;
  const [, date = "", time = "", second, fraction = "", sign, offsetHour = 0, offsetMinute = 0] = match;
  const localMs = Date.parse(`${date}T${time}Z`);
  // `Date` reads a day that does not exist, and the hour 24, as a later day.
  if (Number.isNaN(localMs) || !new Date(localMs).toISOString().startsWith(`${date}T${time}`)) return undefined;
  if (Number(second) > 60 || Number(offsetHour) > 23 || Number(offsetMinute) > 59) return undefined;
  const offsetMs = (sign === "-" ? -1 : 1) * (Number(offsetHour) * 60 + Number(offsetMinute)) * minuteMs;
  const wholeMinuteMs = localMs - offsetMs;
  if (second === "60" && !isLastMinuteOfMonth(wholeMinuteMs)) return undefined;
  return wholeMinuteMs + Number(second) * 1000 + Number(`${fraction}000`.slice(0, 3));
}

/** Whether the instant is 0001-01-01T00:00:00Z, which means an absent timestamp. */
export function isZeroTime(timestampMs: number): boolean {
  return timestampMs === zeroTimeMs;
}

function isLastMinuteOfMonth(minuteStartMs: number): boolean {
  const next = new Date(minuteStartMs + minuteMs);
  return next.getTime() % dayMs === 0 && next.getUTCDate() === 1;
}

/** Limits of texts are in characters, which have one or two UTF-16 units. */
export function isLongerThan(text: string, characters: number): boolean {
  const { length } = text;
  return length > characters && (length > 2 * characters || charactersIn(text) > characters);
}

export function charactersIn(text: string): number {
  if (Buffer.byteLength(text) === text.length) return text.length;
  let characters = 0;
  for (let at = 0; at < text.length; at += (text.codePointAt(at) as number) > 0xffff ? 2 : 1) characters++;
  return characters;
}

/** `sha256:` and the hexadecimal SHA-256 of the text in UTF-8. It names policy revisions. */
export function contentAddress(text: string): string {
  return `sha256:${hash("sha256", text, "hex")}`;
}

/**
 * Whether the text is these literals in order, without overlap and with anything in between: the pattern `a*b` is the
 * literals "a" and "b". The leftmost place of each is always best.
 */
export function isLike(text: string, literals: readonly string[]): boolean {
  const [first = "", ...others] = literals;
  const last = others.pop();
  if (last === undefined) return text === first;
  const end = text.length - last.length;
  if (!text.startsWith(first) || !text.endsWith(last)) return false;
  let at = first.length;
  for (const literal of others) {
    const found = text.indexOf(literal, at);
    if (found === -1) return false;
    at = found + literal.length;
  }
  return at <= end; // the last does not overlap
}

/** The certificates of a text in PEM, each with its first and last line, which begin a line as in OpenSSL. */
export function certificatesIn(pem: string): readonly string[] {
  return pem.match(/^-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/gm) ?? [];
}
