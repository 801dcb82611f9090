/** Usage and options of the command line of local enforcement. */
import { type ParseArgsConfig, parseArgs } from "node:util";
import type { Input, Output } from "./data.ts";
import type { LocalProfile } from "./index.ts";
import { localProfiles } from "./protect.ts";
import { requireLogKeys } from "./receipts.ts";

/** The environment of a command-line program. */
export interface Surroundings {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly stdin: AsyncIterable<Uint8Array>;
  readonly stdout: NodeJS.WritableStream & Exclude<Output, string>;
  readonly stderr: { write(text: string): unknown };
  /** Whether standard error is a terminal. */
  readonly isWatched: boolean;
  readonly homeDirectory: string;
  readonly signal?: AbortSignal;
}

export const usage = `usage: svc-platform <command> [options]

  protect IN OUT --resource-kind KIND    protect a file; - is standard input or output
  open IN OUT                            open a protected file; with --signature FILE, one that is signed
  rewrap IN OUT --new-key-file FILE      put its key under another one, or sign again with it
  verify FILE                            check the receipts beside a file, offline
  flush                                  send the evidence that waits
  new-key FILE                           make a key file
  public-key FILE OUT                    make the key file of those who verify what FILE signs

options
  --key-file FILE        key-encryption key; several may be given, the first protects   (PLATFORM_KEY_FILE)
  --profile PROFILE      of protect, open, rewrap, new-key: envelope, tdf, or detached_signature, where OUT is the signature
  --namespace NAME       of protect with profile tdf: of its attributes      (PLATFORM_ATTRIBUTE_NAMESPACE)
  --foreign              of open with profile tdf: a file that names no decision; needs --resource-kind
  --kas-url URL          of new-key with profile tdf: the key access service that has the key
  --algorithm NAME       of new-key: EdDSA or ES256 of a key that signs, RSA-OAEP or ECDH-ES of a TDF key
  --bundle               of protect: the signature is a Sigstore bundle
  --pem                  of public-key: OUT is in PEM, for other programs
  --signature FILE       of open: the signature of IN
  --opened               of verify: FILE is one that was opened, not one that is protected
  --data FILE            of verify: what was signed; with --key-file, whose signature it is
  --resource-kind KIND, --resource-id ID, --mime-type TYPE     what the data is
  --purpose TEXT         why; --label LABEL and --attribute NAME=VALUE may be repeated
  --application NAME     the workload that asks, with --environment NAME and --component NAME
  --log-key KEY          verifier key of the tenant's log; may be repeated              (PLATFORM_LOG_KEY)
  --spool FOLDER         where evidence waits     (PLATFORM_SPOOL; default ~/.local/state/svc-platform)
  --reference NAME       name of a new key
  --replace              replace an output that is there
  --small-segments       segments of 4 KiB in place of 1 MiB
  --json                 print the outcome as JSON

The platform: PLATFORM_URL, PLATFORM_ISSUER, PLATFORM_CLIENT_ID, PLATFORM_CLIENT_SECRET, PLATFORM_SCOPE, and the PEM files
PLATFORM_CA, PLATFORM_CERT, PLATFORM_KEY.

exit codes: 0 done, 1 the input or an option cannot be used, 2 usage, 3 not permitted, 4 not authentic, 5 no answer
that counts, 6 evidence is overdue, 7 a disk or stream failed, 130 interrupted. Unless it is 0 there is nothing under
the output's name that was not there.
`;

const flags = {
  "key-file": { type: "string", multiple: true },
  "new-key-file": { type: "string" },
  profile: { type: "string" },
  algorithm: { type: "string" },
  namespace: { type: "string" },
  foreign: { type: "boolean" },
  "kas-url": { type: "string" },
  bundle: { type: "boolean" },
  pem: { type: "boolean" },
  signature: { type: "string" },
  opened: { type: "boolean" },
  data: { type: "string" },
  "resource-kind": { type: "string" },
  "resource-id": { type: "string" },
  "mime-type": { type: "string" },
  purpose: { type: "string" },
  label: { type: "string", multiple: true },
  attribute: { type: "string", multiple: true },
  application: { type: "string" },
  environment: { type: "string" },
  component: { type: "string" },
  "log-key": { type: "string", multiple: true },
  spool: { type: "string" },
  reference: { type: "string" },
  replace: { type: "boolean" },
  "small-segments": { type: "boolean" },
  json: { type: "boolean" },
  help: { type: "boolean" },
} as const satisfies NonNullable<ParseArgsConfig["options"]>;

export class UsageError extends Error {}

export function parse(commandLine: readonly string[]) {
  try {
    return parseArgs({ args: [...commandLine], options: flags, allowPositionals: true, strict: true });
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

export type Flags = ReturnType<typeof parse>["values"];

export function requestOf(input: string, output: string, values: Flags, around: Surroundings) {
  const attributes = (values.attribute ?? []).map((text) => {
    const at = text.indexOf("=");
    if (at < 1) throw new UsageError("--attribute is NAME=VALUE");
    return [text.slice(0, at), text.slice(at + 1)] as const;
  });
  return {
    input: (input === "-" ? around.stdin : input) as Input,
    output: (output === "-" ? around.stdout : output) as Output,
    labels: values.label ?? [],
    attributes: Object.fromEntries(attributes),
    replace: values.replace === true,
    ...(values.purpose !== undefined && { purpose: values.purpose }),
    ...(around.signal !== undefined && { signal: around.signal }),
  };
}

export function profileOf({ profile = "envelope" }: Flags): LocalProfile {
  const found = localProfiles.find((known) => known === profile);
  if (found === undefined) throw new UsageError(`--profile is one of ${localProfiles.join(", ")}`);
  return found;
}

/** The algorithm of a new key: the first of the list by default. */
export function algorithmOf<const Name extends string>({ algorithm }: Flags, known: readonly [Name, Name]): Name {
  const found = known.find((name) => name === (algorithm ?? known[0]));
  if (found === undefined) throw new UsageError(`--algorithm is ${known.join(" or ")}`);
  return found;
}

export function resourceOf(values: Flags) {
  const kind = values["resource-kind"];
  if (kind === undefined) return undefined;
  const { "resource-id": id, "mime-type": mime_type } = values;
  return { kind, ...(id !== undefined && { id }), ...(mime_type !== undefined && { mime_type }) };
}

export function keyFilesOf(values: Flags, { environment }: Surroundings): readonly string[] {
  const files = values["key-file"] ?? (environment.PLATFORM_KEY_FILE ? [environment.PLATFORM_KEY_FILE] : []);
  if (files.length === 0) throw new UsageError("there is no --key-file");
  return files;
}

export async function logKeysOf(values: Flags, { environment }: Surroundings): Promise<readonly string[]> {
  const logKeys = values["log-key"] ?? (environment.PLATFORM_LOG_KEY ? [environment.PLATFORM_LOG_KEY] : []);
  await requireLogKeys(logKeys).catch((error: Error) => {
    throw new UsageError(`--log-key: ${error.message}`);
  });
  return logKeys;
}
