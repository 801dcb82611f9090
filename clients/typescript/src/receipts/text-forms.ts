/** Strict parsers of base64 (RFC 4648 §4) and numbers: each value has one text. */

/** Undefined unless the text is padded base64 without line breaks. */
export function parseBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    const decoded = atob(text);
    // The platform's decoder is lenient; only text that encodes back is canonical.
    if (btoa(decoded) !== text) return undefined;
    const bytes = new Uint8Array(decoded.length);
    for (let i = 0; i < bytes.length; i++) bytes[i] = decoded.charCodeAt(i);
    return bytes;
  } catch {
    return undefined;
  }
}

/** Parses a decimal number without leading zeros, up to 2^53 - 1; undefined for any other text. */
export function parseDecimal(text: string): number | undefined {
  if (!/^(0|[1-9][0-9]{0,15})$/.test(text)) return undefined;
  const number = Number(text);
  return Number.isSafeInteger(number) ? number : undefined;
}

export function formatHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The bytes are public, so the comparison need not take constant time. */
export function sameBytes(first: Uint8Array, second: Uint8Array): boolean {
  return first.length === second.length && first.every((byte, i) => byte === second[i]);
}

/** Node's own functions, if this is Node: a receipt has some twenty short inputs, and WebCrypto costs a job for each. */
export const nodeCrypto = globalThis.process?.getBuiltinModule?.("node:crypto");

export async function sha256(...parts: readonly Uint8Array[]): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = joined(...parts);
  if (nodeCrypto !== undefined) return new Uint8Array(nodeCrypto.hash("sha256", bytes, "buffer"));
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
}

export function joined(...parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let offset = 0;
  for (const part of parts) {
    whole.set(part, offset);
    offset += part.length;
  }
  return whole;
}
