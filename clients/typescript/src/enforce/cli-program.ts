/** The command line of local enforcement: `protect`, `open`, `rewrap`, `verify`, `flush`, `new-key`. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type ParseArgsConfig, parseArgs } from "node:util";
import { connect } from "./client.ts";
import { platformOf } from "./client-platform.ts";
import type { Input, Output } from "./data.ts";
import { EnforcementError, type EnforcementFailure } from "./errors.ts";
import { createEnforcer, createKeyFile, keyFile, type Outcome, verifyArtifact } from "./index.ts";

/** What a program of the command line may do to the world that started it. */
export interface Surroundings {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly stdin: AsyncIterable<Uint8Array>;
  readonly stdout: NodeJS.WritableStream & Exclude<Output, string>;
  readonly stderr: { write(text: string): unknown };
  /** Whether a person watches standard error. */
  readonly isWatched: boolean;
  readonly homeDirectory: string;
  readonly signal?: AbortSignal;
}

/** What the process ends with, by what failed. 2 is for a command line that cannot be understood. */
export const exitCodes: Readonly<Record<EnforcementFailure, number>> = {
  invalid: 1,
  exists: 1,
  not_permitted: 3,
  not_authentic: 4,
  unavailable: 5,
  evidence_overdue: 6,
};

const usage = `usage: svc-platform <command> [options]

  protect IN OUT --resource-kind KIND    protect a file; - is standard input or output
  open IN OUT                            open a protected file
  rewrap IN OUT --new-key-file FILE      put its key under another one
  verify FILE                            check the receipts beside a file, offline
  flush                                  send the evidence that waits
  new-key FILE                           make a key file

options
  --key-file FILE        key-encryption key; several may be given, the first protects   (PLATFORM_KEY_FILE)
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

exit codes: 0 done, 1 the input or an option cannot be used, 2 usage, 3 not permitted, 4 not authentic, 5 no answer,
6 evidence is overdue, 130 interrupted. Unless it is 0 there is nothing under the output's name that was not there.
`;

const flags = {
  "key-file": { type: "string", multiple: true },
  "new-key-file": { type: "string" },
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

class UsageError extends Error {}

function parse(commandLine: readonly string[]) {
  try {
    return parseArgs({ args: [...commandLine], options: flags, allowPositionals: true, strict: true });
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

type Flags = ReturnType<typeof parse>["values"];

/** Runs a command line, without program and script. Resolves with the exit code; never rejects. */
export async function runCommandLine(commandLine: readonly string[], surroundings: Surroundings): Promise<number> {
  const { stderr, stdout, signal } = surroundings;
  try {
    const { values, positionals } = parse(commandLine);
    if (values.help === true) {
      stdout.write(usage);
      return 0;
    }
    const [name = "", ...operands] = positionals;
    const command = commands.get(name);
    if (command === undefined || operands.length !== command.operands)
      throw new UsageError(command === undefined ? `there is no command ${name}` : `${name} takes ${command.operands}`);
    await command.run(operands, values, surroundings);
    return 0;
  } catch (error) {
    if (error instanceof UsageError) {
      stderr.write(`svc-platform: ${error.message}\n\n${usage}`);
      return 2;
    }
    stderr.write(`svc-platform: ${error instanceof Error ? error.message : String(error)}\n`);
    if (signal?.aborted === true) return 130;
    return error instanceof EnforcementError ? exitCodes[error.failure] : 1;
  }
}

interface Command {
  readonly operands: number;
  readonly run: (operands: readonly string[], values: Flags, surroundings: Surroundings) => Promise<void>;
}

const commands: ReadonlyMap<string, Command> = new Map<string, Command>([
  [
    "protect",
    { operands: 2, run: ([input = "", output = ""], values, around) => protect(input, output, values, around) },
  ],
  ["open", { operands: 2, run: ([input = "", output = ""], values, around) => open(input, output, values, around) }],
  [
    "rewrap",
    { operands: 2, run: ([input = "", output = ""], values, around) => rewrap(input, output, values, around) },
  ],
  ["verify", { operands: 1, run: ([file = ""], values, around) => verify(file, values, around) }],
  [
    "flush",
    {
      operands: 0,
      run: async (_, values, around) => {
        const { sent, waiting } = await (await enforcerOf(values, around, [])).flush(around.signal);
        print(around, values, { sent, waiting }, `${sent} sent, ${waiting} waiting`);
      },
    },
  ],
  [
    "new-key",
    {
      operands: 1,
      run: async ([file = ""], { reference }) =>
        reference === undefined ? createKeyFile(file) : createKeyFile(file, reference),
    },
  ],
]);

async function protect(input: string, output: string, values: Flags, around: Surroundings): Promise<void> {
  const resource = resourceOf(values);
  if (resource === undefined) throw new UsageError("protect needs --resource-kind");
  const enforcer = await enforcerOf(values, around, keyFilesOf(values, around));
  const aead = values["small-segments"] === true ? "AES256_GCM_HKDF_4KB" : "AES256_GCM_HKDF_1MB";
  const request = { ...requestOf(input, output, values, around), resource, aead } as const;
  report(around, values, output, await withProgress(around, "protecting", request, (it) => enforcer.protect(it)));
}

async function open(input: string, output: string, values: Flags, around: Surroundings): Promise<void> {
  const enforcer = await enforcerOf(values, around, keyFilesOf(values, around));
  const resource = resourceOf(values);
  const request = { ...requestOf(input, output, values, around), ...(resource !== undefined && { resource }) };
  report(around, values, output, await withProgress(around, "opening", request, (it) => enforcer.open(it)));
}

async function rewrap(input: string, output: string, values: Flags, around: Surroundings): Promise<void> {
  const newKeyFile = values["new-key-file"];
  if (newKeyFile === undefined) throw new UsageError("rewrap needs --new-key-file");
  const { reference } = await keyFile(newKeyFile);
  const enforcer = await enforcerOf(values, around, [...keyFilesOf(values, around), newKeyFile]);
  const request = { ...requestOf(input, output, values, around), newKeyReference: reference };
  report(around, values, output, await withProgress(around, "rewrapping", request, (it) => enforcer.rewrap(it)));
}

async function verify(file: string, values: Flags, around: Surroundings): Promise<void> {
  const logKeys = logKeysOf(values, around);
  if (logKeys.length === 0) throw new UsageError("verify needs --log-key or PLATFORM_LOG_KEY");
  const verified = await verifyArtifact({ artifact: file, logKeys });
  const records = verified.records.map(({ name, recordedAt }) => `  ${recordedAt}  ${name}`);
  const pending = verified.isEvidencePending ? ["  its event was still on its way"] : [];
  const lines = [`${file}: ${verified.operation} under decision ${verified.decisionId}`, ...records, ...pending];
  print(around, values, verified, lines.join("\n"));
}

function requestOf(input: string, output: string, values: Flags, around: Surroundings) {
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

function resourceOf(values: Flags) {
  const kind = values["resource-kind"];
  if (kind === undefined) return undefined;
  const { "resource-id": id, "mime-type": mime_type } = values;
  return { kind, ...(id !== undefined && { id }), ...(mime_type !== undefined && { mime_type }) };
}

function keyFilesOf(values: Flags, { environment }: Surroundings): readonly string[] {
  const files = values["key-file"] ?? (environment.PLATFORM_KEY_FILE ? [environment.PLATFORM_KEY_FILE] : []);
  if (files.length === 0) throw new UsageError("there is no --key-file");
  return files;
}

function logKeysOf(values: Flags, { environment }: Surroundings): readonly string[] {
  return values["log-key"] ?? (environment.PLATFORM_LOG_KEY ? [environment.PLATFORM_LOG_KEY] : []);
}

async function enforcerOf(values: Flags, around: Surroundings, keyFiles: readonly string[]) {
  const { environment, homeDirectory } = around;
  const setting = (name: string): string => {
    const value = environment[name];
    if (value === undefined || value === "") throw new UsageError(`${name} is not set`);
    return value;
  };
  const pem = (name: string) => (environment[name] ? readFileSync(environment[name], "utf8") : undefined);
  const [ca, cert, key] = [pem("PLATFORM_CA"), pem("PLATFORM_CERT"), pem("PLATFORM_KEY")];
  const client = connect({
    baseUrl: setting("PLATFORM_URL"),
    issuer: setting("PLATFORM_ISSUER"),
    clientId: setting("PLATFORM_CLIENT_ID"),
    clientSecret: setting("PLATFORM_CLIENT_SECRET"),
    ...(environment.PLATFORM_SCOPE && { scopes: environment.PLATFORM_SCOPE.split(" ") }),
    tls: { ...(ca !== undefined && { ca }), ...(cert !== undefined && { cert }), ...(key !== undefined && { key }) },
  });
  const logKeys = logKeysOf(values, around);
  return createEnforcer({
    client: platformOf(client),
    workload: {
      application: values.application ?? "svc-platform",
      ...(values.environment !== undefined && { environment: values.environment }),
      ...(values.component !== undefined && { component: values.component }),
    },
    keys: await Promise.all(keyFiles.map(keyFile)),
    spoolDirectory: values.spool ?? environment.PLATFORM_SPOOL ?? join(homeDirectory, ".local/state/svc-platform"),
    ...(logKeys.length > 0 && { logKeys }),
  });
}

/** Shows on a terminal how far large work is, ten times a second at most. */
async function withProgress<Request extends object>(
  { isWatched, stderr }: Surroundings,
  word: string,
  request: Request,
  work: (request: Request & { onProgress?: (done: number, total: number | undefined) => void }) => Promise<Outcome>,
): Promise<Outcome> {
  if (!isWatched) return work(request);
  let shownAtMs = 0;
  const mebibytes = (sizeBytes: number) => `${Math.floor(sizeBytes / 1_048_576)} MiB`;
  const onProgress = (done: number, total: number | undefined) => {
    const nowMs = performance.now();
    if (nowMs - shownAtMs < 100) return;
    shownAtMs = nowMs;
    const share = total === undefined || total === 0 ? "" : ` ${Math.floor((100 * done) / total)} %`;
    stderr.write(`\r\u001b[2K${word}: ${mebibytes(done)}${share}`);
  };
  try {
    return await work({ ...request, onProgress });
  } finally {
    if (shownAtMs > 0) stderr.write("\r\u001b[2K");
  }
}

function report(around: Surroundings, values: Flags, output: string, outcome: Outcome): void {
  if (outcome.evidence === "pending") around.stderr.write("svc-platform: the evidence waits to be sent\n");
  // Standard output is the data's.
  if (output === "-") return;
  const { receipts, ...brief } = outcome;
  print(around, values, brief, `${output}: ${outcome.artifactDigest}, decision ${outcome.decisionId}`);
}

function print({ stdout }: Surroundings, { json }: Flags, value: object, text: string): void {
  stdout.write(json === true ? `${JSON.stringify(value)}\n` : `${text}\n`);
}
