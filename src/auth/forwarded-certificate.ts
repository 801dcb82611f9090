/** Parses the client certificate that a trusted ingress forwards, in the configured format. */
import { parseThumbprint, thumbprintOf } from "../base/text-forms.ts";

/**
 * `thumbprint`: base64url SHA-256 of the DER, without padding (the form of `x5t#S256`, RFC 8705 §3.1).
 * `pem`: one URL-encoded PEM certificate (nginx `$ssl_client_escaped_cert`).
 * `der`: the `Client-Cert` value of RFC 9440 §2.1, a byte sequence `:base64:` (RFC 9651 §3.3.5).
 */
export const forwardedCertificateFormats = ["thumbprint", "pem", "der"] as const;
export type ForwardedCertificateFormat = (typeof forwardedCertificateFormats)[number];

/** Longest header value; a certificate with a 4096-bit key has about 3 KiB when encoded. */
const maximumLength = 16 * 1024;

const pemCertificate =
  /^-----BEGIN CERTIFICATE-----\r?\n((?:[A-Za-z0-9+/=]{1,76}\r?\n)+)-----END CERTIFICATE-----(?:\r?\n)?$/;
const byteSequence = /^:([A-Za-z0-9+/]+={0,2}):$/;

const parsers: Readonly<Record<ForwardedCertificateFormat, (value: string) => Buffer | undefined>> = {
  thumbprint: parseThumbprint,
  pem(value) {
    const body = pemCertificate.exec(decodePercent(value) ?? "")?.[1];
    return body === undefined ? undefined : thumbprintOfBase64(body.replace(/\r?\n/g, ""));
  },
  der(value) {
    const body = byteSequence.exec(value)?.[1];
    return body === undefined ? undefined : thumbprintOfBase64(body);
  },
};

/**
 * Returns the SHA-256 thumbprint, 32 bytes, of a forwarded certificate; undefined if the value is not canonical in the
 * format. Does NOT check that the bytes are a certificate: a binding is to the hash of exactly these bytes.
 */
export function parseForwardedCertificate(value: string, format: ForwardedCertificateFormat): Buffer | undefined {
  return value.length > maximumLength ? undefined : parsers[format](value);
}

function thumbprintOfBase64(text: string): Buffer | undefined {
  const der = Buffer.from(text, "base64");
  return der.length > 0 && der.toString("base64") === text ? thumbprintOf(der) : undefined;
}

function decodePercent(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
