/** Checks the files and directories that settings name: that they exist and have valid content. */
import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { resolve } from "node:path";
import { orUndefined } from "../base/json.ts";
import { certificatesIn } from "../base/text-forms.ts";
import { codeText, NotRegularFileError } from "../files/file-system.ts";
import { filesOf, parseIssuerFile, parseQuotaFile, parseSignInFile } from "./data-files.ts";
import { type Config, type Key, settings } from "./settings.ts";

/**
 * File system access of the configuration. All functions throw an `Error` with a `code` if the path is not readable.
 */
export interface Files {
  /** Content of the file, as UTF-8. */
  readText(path: string): string;
  /** Whether the path is a directory. */
  isDirectory(path: string): boolean;
  /** Permission bits of a regular file, following links; undefined if it is none or has none. */
  permissions(path: string): number | undefined;
}

interface FileRule {
  readonly key: Key;
  /** Completes "NAME: …" if the content is invalid. May throw if it cannot be read. */
  readonly problem: (path: string, config: Config, files: Files) => string | undefined;
}

/**
 * Also in the older forms (`X509 CERTIFICATE`, `TRUSTED CERTIFICATE`), which OpenSSL trusts and nothing else here
 * recognises.
 */
const begunCertificate = /BEGIN [A-Z0-9 ]*CERTIFICATE-----/g;

/** Names the directory, which is no secret. */
const directory: FileRule["problem"] = (path, _config, files) => {
  const problem = attempt(() => (files.isDirectory(path) ? undefined : "is not a directory"));
  return problem && `${resolve(path)} ${problem}`;
};

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
      // The first key signs, so it must be a private one; the following ones may be public.
      parseKey(files.readText(path)) === undefined
        ? "does not begin with a private key in PEM, without a passphrase"
        : undefined,
  },
  { key: "tlsClientCa", problem: certificates },
  { key: "oidcCa", problem: certificates },
  { key: "storePasswordFile", problem: readable },
  { key: "quotas", problem: (path, _config, files) => messageOf(files.readText(path), parseQuotaFile) },
  {
    key: "consoleSignIn",
    problem: (path, _config, files) =>
      messageOf(files.readText(path), (text) => {
        const { clientSecretFile: file } = parseSignInFile(text);
        requireSecret(file, files);
        if (files.readText(file).trim().length < 32)
          throw new Error(`${file} holds a secret of fewer than 32 characters`);
      }),
  },
  {
    key: "oidcIssuers",
    problem: (path, config, files) =>
      messageOf(files.readText(path), (text) => {
        const asked = parseIssuerFile(text, config).flatMap(({ introspection }) => introspection ?? []);
        for (const file of asked.flatMap(filesOf)) requireSecret(file, files);
      }),
  },
];

/** Problems of the named files, as "NAME: …"; of all settings, or of those with these keys. */
export function fileProblems(config: Config, files: Files, keys?: readonly Key[]): readonly string[] {
  const isAsked = ({ key }: { readonly key: Key }) => keys?.includes(key) ?? true;
  const unfit = rules.filter(isAsked).flatMap(({ key, problem }) => {
    const path = config[key];
    const found = typeof path === "string" ? attempt(() => problem(path, config, files)) : undefined;
    return found === undefined ? [] : [{ key, message: found }];
  });
  const exposed = openSecretFiles(config, files).filter((found) => found.refused && isAsked(found));
  return [...unfit, ...exposed].map(({ key, message }) => `${settings[key].name}: ${message}`);
}

function attempt(problem: () => string | undefined): string | undefined {
  try {
    return problem();
  } catch (error) {
    if (error instanceof NotRegularFileError) return `is ${error.kind}, not a regular file`;
    return `cannot be read${codeText(error)}`;
  }
}

/** The problem of a private key: it cannot be parsed, or is not the key of the certificate that `setting` names. */
function keyProblem(path: string, certificate: string | undefined, setting: string, files: Files): string | undefined {
  const key = parseKey(files.readText(path));
  if (key === undefined) return "is not a private key in PEM, without a passphrase";
  const owner = certificate === undefined ? undefined : readCertificate(certificate, files);
  return owner?.checkPrivateKey(key) === false ? `is not the key of ${setting}` : undefined;
}

function certificatesProblem(pem: string): string | undefined {
  const certificates = certificatesIn(pem);
  const begun = pem.match(begunCertificate)?.length ?? 0;
  if (begun === 0) return "holds no certificate in PEM";
  // The last one may be truncated; one that is commented out is recognised by some parsers and not by others.
  return begun === certificates.length &&
    certificates.every((certificate) => parseCertificate(certificate) !== undefined)
    ? undefined
    : "holds a certificate that does not parse, or is not between lines of BEGIN CERTIFICATE and END CERTIFICATE";
}

/** The first certificate of the file; undefined without one, which another rule reports. */
function readCertificate(path: string, files: Files): X509Certificate | undefined {
  const [first] = certificatesIn(orUndefined(() => files.readText(path)) ?? "");
  return first === undefined ? undefined : parseCertificate(first);
}

function parseCertificate(pem: string): X509Certificate | undefined {
  return orUndefined(() => new X509Certificate(pem));
}

/** Throws if a file of credentials cannot be read, or may be written by anyone. */
function requireSecret(path: string, files: Files): void {
  const problem = attempt(() => void files.readText(path));
  if (problem !== undefined) throw new Error(`${path} ${problem}`);
  if (((files.permissions(path) ?? 0) & 0o002) !== 0) throw new Error(`${path} may be written by anyone`);
}

/** The parser's message about the text. */
function messageOf(text: string, parse: (text: string) => unknown): string | undefined {
  try {
    parse(text);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

function parseKey(pem: string): KeyObject | undefined {
  return orUndefined(() => createPrivateKey(pem));
}

// Permissions of files that must stay secret.

/** Files that the service's own commands write: they have no reason for another mode than theirs. */
const ownSecrets: readonly Key[] = ["ledgerKey", "opsCredentials", "sessionClients"];
const secrets: readonly Key[] = [
  ...ownSecrets,
  ...(["tlsKey", "opsTlsKey", "store", "storePasswordFile", "sessionKey", "dpopNonceKey"] as const),
];

/**
 * Write access for group and others, read access for others. A group may read: orchestrators mount secrets that root
 * owns and that the process's group can read.
 */
const tooOpen = 0o026;
/** A process that can write the file can authenticate as its owner. */
const writableByAnybody = 0o002;

/**
 * Secret files of the configuration with too wide permissions. `message` completes "NAME: …". The service must not start
 * with a `refused` one. If a file that others provide is readable by all, this is only a warning: orchestrators mount
 * secrets that way in containers without other users.
 */
export function openSecretFiles(config: Partial<Config>, files: Pick<Files, "permissions">) {
  return secrets.flatMap((key) => {
    const value = config[key];
    const path = typeof value === "object" && "path" in value ? value.path : value;
    // An absent file cannot be read by others; whether it must exist is another rule.
    const permissions = typeof path === "string" ? orUndefined(() => files.permissions(path)) : undefined;
    if (permissions === undefined || (permissions & tooOpen) === 0) return [];
    const mode = permissions.toString(8).padStart(4, "0");
    const message = `is a file of mode ${mode}: others may not read it, and only its owner may write it (0600, or 0640 for a group that reads it)`;
    return [{ key, message, refused: ownSecrets.includes(key) || (permissions & writableByAnybody) !== 0 }];
  });
}
