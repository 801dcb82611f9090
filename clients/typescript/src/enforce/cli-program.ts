/** The command line of local enforcement: `protect`, `open`, `rewrap`, `verify`, `flush`, and key files. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import {
  algorithmOf,
  type Flags,
  keyFilesOf,
  logKeysOf,
  parse,
  profileOf,
  requestOf,
  resourceOf,
  type Surroundings,
  UsageError,
  usage,
} from "./cli-options.ts";
import { connect } from "./client.ts";
import { platformOf } from "./client-platform.ts";
import { EnforcementError, type EnforcementFailure } from "./errors.ts";
import {
  createEnforcer,
  createKeyFile,
  createPublicKeyFile,
  createSigningKeyFile,
  createTdfKeyFile,
  keyFile,
  type Outcome,
  type VerifiedArtifact,
  verifyArtifact,
} from "./index.ts";
import { visibleLine } from "./text.ts";

/** Exit codes by failure. 2 is for an invalid command line. */
export const exitCodes: Readonly<Record<EnforcementFailure, number>> = {
  invalid: 1,
  exists: 1,
  not_permitted: 3,
  not_authentic: 4,
  unavailable: 5,
  evidence_overdue: 6,
  io_failed: 7,
};

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
      stderr.write(`svc-platform: ${visibleLine(error.message)}\n\n${usage}`);
      return 2;
    }
    warn(surroundings, error instanceof Error ? error.message : String(error));
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
        print(around, values, { sent, waiting }, [`${sent} sent, ${waiting} waiting`]);
      },
    },
  ],
  [
    "new-key",
    {
      operands: 1,
      run: async ([file = ""], values) => {
        await newKeyFile(file, values);
      },
    },
  ],
  [
    "public-key",
    {
      operands: 2,
      run: ([file = "", output = ""], { pem }) => createPublicKeyFile(file, output, pem === true ? "pem" : "jwk"),
    },
  ],
]);

async function newKeyFile(file: string, values: Flags): Promise<void> {
  const { reference, "kas-url": url } = values;
  const profile = profileOf(values);
  if (profile === "envelope") return createKeyFile(file, reference);
  if (profile === "detached_signature")
    return createSigningKeyFile(file, reference, algorithmOf(values, ["EdDSA", "ES256"]));
  if (url === undefined) throw new UsageError("a TDF key needs --kas-url");
  return createTdfKeyFile(file, url, reference, algorithmOf(values, ["RSA-OAEP", "ECDH-ES"]));
}

async function protect(input: string, output: string, values: Flags, around: Surroundings): Promise<void> {
  const resource = resourceOf(values);
  if (resource === undefined) throw new UsageError("protect needs --resource-kind");
  const enforcer = await enforcerOf(values, around, keyFilesOf(values, around));
  const aead = values["small-segments"] === true ? "AES256_GCM_HKDF_4KB" : "AES256_GCM_HKDF_1MB";
  const request = {
    ...requestOf(input, output, values, around),
    profile: profileOf(values),
    resource,
    aead,
    bundle: values.bundle === true,
  } as const;
  const outcome = await withProgress(around, "protecting", request, (it) => enforcer.protect(it));
  report(around, values, output, outcome, (artifact) => `${output}: ${artifact}`);
}

async function open(input: string, output: string, values: Flags, around: Surroundings): Promise<void> {
  const enforcer = await enforcerOf(values, around, keyFilesOf(values, around));
  const resource = resourceOf(values);
  const { signature } = values;
  if (values.profile !== undefined && (profileOf(values) === "detached_signature") !== (signature !== undefined))
    throw new UsageError("a detached signature is named by --signature");
  const request = {
    ...requestOf(input, output, values, around),
    ...(signature === undefined ? { profile: profileOf(values) } : { signature }),
    ...(values.foreign === true && { allowForeign: true }),
    ...(resource !== undefined && { resource }),
  };
  const outcome = await withProgress(around, "opening", request, (it) => enforcer.open(it));
  const from = signature ?? (input === "-" ? "standard input" : input);
  report(around, values, output, outcome, (artifact) => `${output}: opened from ${from}, ${artifact}`);
}

async function rewrap(input: string, output: string, values: Flags, around: Surroundings): Promise<void> {
  const newKeyFile = values["new-key-file"];
  if (newKeyFile === undefined) throw new UsageError("rewrap needs --new-key-file");
  const { reference } = await keyFile(newKeyFile);
  const enforcer = await enforcerOf(values, around, [...keyFilesOf(values, around), newKeyFile]);
  const asked = requestOf(input, output, values, around);
  const request = { ...asked, profile: profileOf(values), newKeyReference: reference };
  const outcome = await withProgress(around, "rewrapping", request, (it) => enforcer.rewrap(it));
  report(around, values, output, outcome, (artifact) => `${output}: ${artifact}`);
}

async function verify(file: string, values: Flags, around: Surroundings): Promise<void> {
  const logKeys = await logKeysOf(values, around);
  if (logKeys.length === 0) throw new UsageError("verify needs --log-key or PLATFORM_LOG_KEY");
  const { data, "key-file": keyFiles } = values;
  const verified = await verifyArtifact({
    artifact: file,
    kind: values.opened === true ? "opened" : "artifact",
    logKeys,
    ...(data !== undefined && { data }),
    ...(keyFiles !== undefined && {
      keys: (await Promise.all(keyFiles.map(keyFile))).filter((key) => "verify" in key),
    }),
  });
  const records = verified.records.map(({ name, recordedAt }) => `  ${recordedAt}  ${name}`);
  const pending = verified.isEvidencePending ? ["  its event was still on its way"] : [];
  const lines = [
    `${file}: ${verified.operation} under decision ${verified.decisionId}`,
    `  by ${verified.principalId} of ${verified.tenantId}, artifact ${verified.artifactDigest}`,
    ...records,
    ...pending,
    ...(verified.isKeyCommitted === false ? [`  of ${oldForm}`] : []),
    ...unprovenLines(verified),
  ];
  print(around, values, verified, lines);
}

const oldForm = "the old form: its header does not commit to its content key";

/** What the receipts do not prove. */
function unprovenLines({ operation, isContentProven, origin }: VerifiedArtifact): readonly string[] {
  if (operation === "access")
    return isContentProven === true ? [] : ["  no record names the content: that it is of this artifact is not proven"];
  if (origin === undefined)
    return ["  the receipts of what was first protected are not here: what its header says of it is not proven"];
  return operation === "rewrap" ? [`  first protected under decision ${origin.decisionId}`] : [];
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
  const logKeys = await logKeysOf(values, around);
  const namespace = values.namespace ?? environment.PLATFORM_ATTRIBUTE_NAMESPACE;
  return createEnforcer({
    client: platformOf(client),
    workload: {
      application: values.application ?? "svc-platform",
      ...(values.environment !== undefined && { environment: values.environment }),
      ...(values.component !== undefined && { component: values.component }),
    },
    keys: await Promise.all(keyFiles.map(keyFile)),
    ...(namespace !== undefined && { attributeNamespace: namespace }),
    spoolDirectory: values.spool ?? environment.PLATFORM_SPOOL ?? join(homeDirectory, ".local/state/svc-platform"),
    ...(logKeys.length > 0 && { logKeys }),
  });
}

/** Shows the progress of large work on a terminal, at most ten times a second. */
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

function report(
  around: Surroundings,
  values: Flags,
  output: string,
  outcome: Outcome,
  line: (artifact: string) => string,
): void {
  if (outcome.evidence === "pending") warn(around, "the evidence waits to be sent");
  if (outcome.isKeyCommitted === false) warn(around, `the artifact is of ${oldForm}`);
  if (outcome.isForeign === true) warn(around, "the file names no decision: none is proven");
  // Standard output has the data.
  if (output === "-") return;
  const { receipts, ...brief } = outcome;
  print(around, values, brief, [line(`${outcome.artifactDigest}, decision ${outcome.decisionId}`)]);
}

function warn({ stderr }: Surroundings, text: string): void {
  stderr.write(`svc-platform: ${visibleLine(text)}\n`);
}

/** Names, references and reasons are foreign text and must not control the terminal, not even within JSON. */
function print({ stdout }: Surroundings, { json }: Flags, value: object, lines: readonly string[]): void {
  for (const line of json === true ? [JSON.stringify(value)] : lines) stdout.write(`${visibleLine(line)}\n`);
}
