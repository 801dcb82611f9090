/** Certificates of an authority that a test owns, made with the `openssl` command. */
import { execFile } from "node:child_process";
import { createHash, X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];

/** Certificate and key in PEM, and the files that hold them. */
export interface IssuedCertificate {
  readonly cert: string;
  readonly key: string;
  readonly certFile: string;
  readonly keyFile: string;
  /** Base64url SHA-256 of the DER. */
  readonly thumbprint: string;
}

export interface CertificateAuthority extends IssuedCertificate {
  /**
   * Issues a certificate that lives for a day.
   * @param name of its files, in the authority's folder
   * @param subject as `openssl` takes it, such as `/O=tenant-a/CN=payroll-service`; by default the name
   * @param names subject alternative names, such as `DNS:localhost,IP:127.0.0.1`
   */
  issue(name: string, subject?: string, names?: string): Promise<IssuedCertificate>;
}

/** Makes an authority; its files are `<name>.crt.pem` and `<name>.key.pem` in the folder. */
export async function createAuthority(folder: string, name: string): Promise<CertificateAuthority> {
  const own = filesOf(folder, name);
  await run("openssl", ["req", "-x509", ...newKey, "-subj", `/CN=${name}`, "-days", "1", ...out(own)]);
  return {
    ...(await read(own)),
    async issue(leaf, subject = `/CN=${leaf}`, names) {
      const files = filesOf(folder, leaf);
      const extensions = ["-addext", "basicConstraints=critical,CA:FALSE"];
      if (names !== undefined) extensions.push("-addext", `subjectAltName=${names}`);
      const signed = ["-CA", own.certFile, "-CAkey", own.keyFile, "-days", "1"];
      await run("openssl", ["req", "-x509", ...newKey, "-subj", subject, ...extensions, ...signed, ...out(files)]);
      return read(files);
    },
  };
}

interface PemFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

function filesOf(folder: string, name: string): PemFiles {
  return { certFile: join(folder, `${name}.crt.pem`), keyFile: join(folder, `${name}.key.pem`) };
}

function out({ certFile, keyFile }: PemFiles): string[] {
  return ["-out", certFile, "-keyout", keyFile];
}

async function read(files: PemFiles): Promise<IssuedCertificate> {
  const [cert, key] = await Promise.all([readFile(files.certFile, "utf8"), readFile(files.keyFile, "utf8")]);
  const thumbprint = createHash("sha256").update(new X509Certificate(cert).raw).digest("base64url");
  return { cert, key, ...files, thumbprint };
}
