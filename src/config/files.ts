/** The files and directories that settings name: whether they are there, and hold what they should. */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { NotRegularFileError } from "../files/file-system.ts";
import { filesOf } from "./introspection-rule.ts";
import { parseIssuerFile } from "./issuer-file.ts";
import { parseQuotaFile } from "./quota-file.ts";
import { type FilePermissions, openSecretFiles } from "./secret-files.ts";
import type { Config, Key } from "./settings.ts";

/** What the configuration asks of the file system. All throw an `Error` with a `code` where the path is not readable. */
export interface Files extends FilePermissions {
  /** Content of the file, as UTF-8. */
  readText(path: string): string;
  /** Whether the path is a directory. */
  isDirectory(path: string): boolean;
}

interface FileRule {
  readonly key: Key;
  /** Completes "NAME: …" where the path does not hold what it should. May throw: then it cannot be read. */
  readonly problem: (path: string, config: Config, files: Files) => string | undefined;
}

/** As OpenSSL finds them: at the beginning of a line. */
const pemCertificate = /^-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/gm;
/** In the older forms as well (`X509 CERTIFICATE`, `TRUSTED CERTIFICATE`), which OpenSSL trusts and nothing else here sees. */
const begunCertificate = /BEGIN [A-Z0-9 ]*CERTIFICATE-----/g;

const directory: FileRule["problem"] = (path, _config, files) =>
  files.isDirectory(path) ? undefined : "is not a directory";

const readable: FileRule["problem"] = (path, _config, files) => void files.readText(path);

const certificates: FileRule["problem"] = (path, _config, files) => certificatesProblem(files.readText(path));

const rules: readonly FileRule[] = [
  { key: "policyDir", problem: directory },
  { key: "tlsCert", problem: certificates },
  { key: "tlsKey", problem: (path, { tlsCert }, files) => keyProblem(path, tlsCert, "SVC_TLS_CERT", files) },
  { key: "opsTlsCert", problem: certificates },
  {
    key: "opsTlsKey",
    problem: (path, { opsTlsCert }, files) => keyProblem(path, opsTlsCert, "SVC_OPS_TLS_CERT", files),
  },
  {
    key: "dpopNonceKey",
    problem: (path, _config, files) =>
      files.readText(path).trim().length < 32 ? "holds a secret of fewer than 32 characters" : undefined,
  },
  {
    key: "sessionKey",
    problem: (path, _config, files) =>
      // The first key signs, and so must be a private one; those after it may be public.
      parseKey(files.readText(path)) === undefined
        ? "does not begin with a private key in PEM, without a passphrase"
        : undefined,
  },
  { key: "tlsClientCa", problem: certificates },
  { key: "storePasswordFile", problem: readable },
  { key: "quotas", problem: (path, _config, files) => messageOf(files.readText(path), parseQuotaFile) },
  {
    key: "oidcIssuers",
    problem: (path, config, files) =>
      messageOf(files.readText(path), (text) => {
        const asked = parseIssuerFile(text, config).flatMap(({ introspection }) => introspection ?? []);
        for (const file of asked.flatMap(filesOf)) requireSecret(file, files);
      }),
  },
];

/** Problems of the named files, as "NAME: …" after `nameOf`; for the keys that `has` knows. */
export function fileProblems(
  config: Config,
  files: Files,
  has: (key: Key) => boolean,
  nameOf: (key: Key) => string,
): readonly string[] {
  const pathOf = (key: Key) => {
    const path = has(key) ? config[key] : undefined;
    return typeof path === "string" ? path : undefined;
  };
  const unfit = rules.flatMap(({ key, problem }) => {
    const path = pathOf(key);
    const found = path === undefined ? undefined : attempt(() => problem(path, config, files));
    return found === undefined ? [] : [`${nameOf(key)}: ${found}`];
  });
  const exposed = openSecretFiles(config, files, has)
    .filter(({ refused }) => refused)
    .map(({ key, message }) => `${nameOf(key)}: ${message}`);
  return [...unfit, ...exposed];
}

function attempt(problem: () => string | undefined): string | undefined {
  try {
    return problem();
  } catch (error) {
    if (error instanceof NotRegularFileError) return `is ${error.kind}, not a regular file`;
    const code = error instanceof Error && "code" in error ? ` (${String(error.code)})` : "";
    return `cannot be read${code}`;
  }
}

/** What is wrong with a private key, or with it as the one of a certificate whose setting has this name. */
function keyProblem(path: string, certificate: string | undefined, setting: string, files: Files): string | undefined {
  const key = parseKey(files.readText(path));
  if (key === undefined) return "is not a private key in PEM, without a passphrase";
  const owner = certificate === undefined ? undefined : readCertificate(certificate, files);
  return owner?.checkPrivateKey(key) === false ? `is not the key of ${setting}` : undefined;
}

function certificatesProblem(pem: string): string | undefined {
  const certificates = pem.match(pemCertificate) ?? [];
  const begun = pem.match(begunCertificate)?.length ?? 0;
  if (begun === 0) return "holds no certificate in PEM";
  // The last one may be half written; one that is commented out is there for some and not for others.
  return begun === certificates.length &&
    certificates.every((certificate) => parseCertificate(certificate) !== undefined)
    ? undefined
    : "holds a certificate that does not parse, or is not between lines of BEGIN CERTIFICATE and END CERTIFICATE";
}

/** The first certificate of the file; undefined where there is none, which its own rule reports. */
function readCertificate(path: string, files: Files): X509Certificate | undefined {
  let pem: string;
  try {
    pem = files.readText(path);
  } catch {
    return undefined;
  }
  const [first] = pem.match(pemCertificate) ?? [];
  return first === undefined ? undefined : parseCertificate(first);
}

function parseCertificate(pem: string): X509Certificate | undefined {
  try {
    return new X509Certificate(pem);
  } catch {
    return undefined;
  }
}

/** Throws where a file of credentials cannot be read, or may be written by anybody. */
function requireSecret(path: string, files: Files): void {
  const problem = attempt(() => void files.readText(path));
  if (problem !== undefined) throw new Error(`${path} ${problem}`);
  if (((files.permissions(path) ?? 0) & 0o002) !== 0) throw new Error(`${path} may be written by anybody`);
}

/** What the parser says of the text. */
function messageOf(text: string, parse: (text: string) => unknown): string | undefined {
  try {
    parse(text);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

function parseKey(pem: string) {
  try {
    return createPrivateKey(pem);
  } catch {
    return undefined;
  }
}
