/** Certificates of authorities that a test owns, made in the process (RFC 5280): P-256, for a day around now. */
import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";

/** Certificate and key in PEM, and the files that hold them. */
export interface IssuedCertificate {
  readonly cert: string;
  readonly key: string;
  readonly certFile: string;
  readonly keyFile: string;
  /** Base64url SHA-256 of the DER. */
  readonly thumbprint: string;
}

/** Makes an authority; its files are `<name>.crt.pem` and `<name>.key.pem` in the folder. */
export async function createAuthority(folder: string, name: string) {
  const { privateKey, publicKey } = newKeys();
  const issuer = nameOf(`/CN=${name}`);
  const own = certify({ subject: issuer, publicKey, extensions: [authority] }, issuer, privateKey);
  return {
    ...(await write(folder, name, own, privateKey)),
    /**
     * Issues a certificate.
     * @param leaf name of its files, in the authority's folder
     * @param subject such as `/O=tenant-a/CN=payroll-service`; by default the name
     * @param names subject alternative names, such as `DNS:localhost,IP:127.0.0.1`
     */
    issue(leaf: string, subject = `/CN=${leaf}`, names?: string) {
      const keys = newKeys();
      const extensions = names === undefined ? [noAuthority] : [noAuthority, alternativeNames(names)];
      const subjectAndKey = { subject: nameOf(subject), publicKey: keys.publicKey, extensions };
      return write(folder, leaf, certify(subjectAndKey, issuer, privateKey), keys.privateKey);
    },
  };
}

function newKeys() {
  return generateKeyPairSync("ec", { namedCurve: "P-256" });
}

async function write(folder: string, name: string, der: Buffer, privateKey: KeyObject): Promise<IssuedCertificate> {
  const lines = der.toString("base64").match(/.{1,64}/g) ?? [];
  const cert = `-----BEGIN CERTIFICATE-----\n${lines.join("\n")}\n-----END CERTIFICATE-----\n`;
  const key = privateKey.export({ type: "pkcs8", format: "pem" }) as string;
  const [certFile, keyFile] = [join(folder, `${name}.crt.pem`), join(folder, `${name}.key.pem`)];
  await Promise.all([writeFile(certFile, cert), writeFile(keyFile, key, { mode: 0o600 })]);
  return { cert, key, certFile, keyFile, thumbprint: createHash("sha256").update(der).digest("base64url") };
}

interface Subject {
  readonly subject: Buffer;
  readonly publicKey: KeyObject;
  readonly extensions: readonly Buffer[];
}

function certify({ subject, publicKey, extensions }: Subject, issuer: Buffer, key: KeyObject): Buffer {
  const algorithm = sequence(oid("2a8648ce3d040302")); // ecdsa-with-SHA256
  const body = sequence(
    tlv(0xa0, tlv(0x02, Buffer.of(2))),
    tlv(0x02, Buffer.concat([Buffer.of(1), randomBytes(8)])),
    algorithm,
    issuer,
    sequence(dayOf(-1), dayOf(1)),
    subject,
    publicKey.export({ type: "spki", format: "der" }),
    tlv(0xa3, sequence(...extensions)),
  );
  return sequence(body, algorithm, tlv(0x03, Buffer.concat([Buffer.of(0), sign("sha256", body, key)])));
}

function nameOf(subject: string): Buffer {
  const oids: Readonly<Record<string, string>> = { CN: "550403", O: "55040a" };
  const attributes = [...subject.matchAll(/\/(\w+)=([^/]+)/g)];
  return sequence(
    ...attributes.map(([, type = "", value = ""]) =>
      tlv(0x31, sequence(oid(oids[type] ?? ""), tlv(0x0c, Buffer.from(value)))),
    ),
  );
}

const yes = tlv(0x01, Buffer.of(0xff));
const authority = sequence(oid("551d13"), yes, tlv(0x04, sequence(yes)));
const noAuthority = sequence(oid("551d13"), yes, tlv(0x04, sequence()));

function alternativeNames(names: string): Buffer {
  const all = names.split(",").map((name) => {
    const [, type, value = ""] = /^(DNS|IP):(.*)$/.exec(name) ?? [];
    return type === "IP" ? tlv(0x87, Buffer.from(value.split(".").map(Number))) : tlv(0x82, Buffer.from(value));
  });
  return sequence(oid("551d11"), tlv(0x04, sequence(...all)));
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
