/** Standard base64 (RFC 4648 §4), read strictly: one text for every sequence of bytes. */

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

/** A decimal number without needless zeros, up to 2^53 - 1; undefined for any other text. */
export function parseDecimal(text: string): number | undefined {
  if (!/^(0|[1-9][0-9]{0,15})$/.test(text)) return undefined;
  const number = Number(text);
  return Number.isSafeInteger(number) ? number : undefined;
}
