/** Certificates of authorities that a test owns, made in the process (RFC 5280): P-256, for a day around now. */
import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";

/** Certificate and key in PEM. */
export interface TestCertificate {
  readonly cert: string;
  readonly key: string;
  /** Base64url SHA-256 of the DER. */
  readonly thumbprint: string;
}

export interface TestAuthority extends TestCertificate {
  /** For 127.0.0.1; valid between these days from now, by default a day before and after. */
  issue(name: string, days?: { readonly from?: number; readonly to?: number }): TestCertificate;
}

export function newAuthority(name: string): TestAuthority {
  const keys = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const own = certify({ subject: name, publicKey: keys.publicKey, isAuthority: true }, name, keys.privateKey);
  return {
    ...partyOf(own, keys.privateKey),
    issue(subject, days) {
      const leaf = generateKeyPairSync("ec", { namedCurve: "P-256" });
      const der = certify({ subject, publicKey: leaf.publicKey, isAuthority: false, ...days }, name, keys.privateKey);
      return partyOf(der, leaf.privateKey);
    },
  };
}

interface Subject {
  readonly subject: string;
  readonly publicKey: KeyObject;
  readonly isAuthority: boolean;
  readonly from?: number;
  readonly to?: number;
}

function partyOf(der: Buffer, privateKey: KeyObject): TestCertificate {
  const lines = der.toString("base64").match(/.{1,64}/g) ?? [];
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${lines.join("\n")}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: "pkcs8", format: "pem" }) as string,
    thumbprint: createHash("sha256").update(der).digest("base64url"),
  };
}

function certify({ subject, publicKey, isAuthority, from = -1, to = 1 }: Subject, issuer: string, key: KeyObject) {
  const algorithm = sequence(oid("2a8648ce3d040302")); // ecdsa-with-SHA256
  const basicConstraints = sequence(...(isAuthority ? [tlv(0x01, Buffer.of(0xff))] : []));
  const loopback = sequence(tlv(0x87, Buffer.of(127, 0, 0, 1)));
  const extensions = sequence(
    sequence(oid("551d13"), tlv(0x01, Buffer.of(0xff)), tlv(0x04, basicConstraints)),
    ...(isAuthority ? [] : [sequence(oid("551d11"), tlv(0x04, loopback))]),
  );
  const body = sequence(
    tlv(0xa0, tlv(0x02, Buffer.of(2))),
    tlv(0x02, Buffer.concat([Buffer.of(1), randomBytes(8)])),
    algorithm,
    nameOf(issuer),
    sequence(dayOf(from), dayOf(to)),
    nameOf(subject),
    publicKey.export({ type: "spki", format: "der" }),
    tlv(0xa3, extensions),
  );
  return sequence(body, algorithm, tlv(0x03, Buffer.concat([Buffer.of(0), sign("sha256", body, key)])));
}

function nameOf(commonName: string): Buffer {
  return sequence(tlv(0x31, sequence(oid("550403"), tlv(0x0c, Buffer.from(commonName)))));
}

function dayOf(days: number): Buffer {
  const text = new Date(Date.now() + days * 86_400_000).toISOString();
  return tlv(0x18, Buffer.from(`${text.slice(0, 19).replaceAll(/[-:T]/g, "")}Z`));
}

function sequence(...parts: readonly Buffer[]): Buffer {
  return tlv(0x30, Buffer.concat(parts));
}

function oid(hex: string): Buffer {
  return tlv(0x06, Buffer.from(hex, "hex"));
}

/** Tag, length and value (X.690 §8.1); up to 65,535 bytes. */
function tlv(tag: number, value: Buffer): Buffer {
  const { length } = value;
  const lengthBytes =
    length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, Math.floor(length / 256), length % 256];
  return Buffer.concat([Buffer.of(tag, ...lengthBytes), value]);
}
