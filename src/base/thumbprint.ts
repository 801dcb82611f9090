/** SHA-256 thumbprints as OAuth writes them: base64url without padding (RFC 8705 §3.1, RFC 7638 §3). */
import { createHash } from "node:crypto";

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
