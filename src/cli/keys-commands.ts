import { randomFillSync } from "node:crypto";
import { existsSync } from "node:fs";
import type { Command } from "commander";
import { formatBase64 } from "../base/text-forms.ts";
import { findRotations } from "../ledger/audit/rotation-audit.ts";
import type { StoreArchive } from "../ledger/ports/archive.ts";
import type { LogState } from "../ledger/ports/store.ts";
import { formatVerifierKey, type SigningKey, signingKeyOf } from "../ledger/tlog/note-keys.ts";
import { LogSigner } from "../ledger/tlog/signer.ts";
import { sameHash } from "../ledger/tlog/tree.ts";
import { formatTrustedKey } from "../ledger/tlog/trusted-key.ts";
import { createKeyFile, KeyFileError, readKeyFile, replaceKeyFile, type SigningKeys } from "../stores/key-file.ts";
import {
  confirmStepOrReport,
  readStatement,
  type StatedOptions,
  withConfirmation,
  withStatement,
} from "./confirmation.ts";
import { ownKeysOrReport } from "./ledger/checkpoint.ts";
import { type OpenedStore, withStoreOrReport } from "./ledger/store.ts";
import { type CommonOptions, loadOrReport, withCommonOptions } from "./options.ts";
import { createOutput, type Output } from "./output.ts";
import { tellSecurity } from "./security-line.ts";
import type { Terminal } from "./terminal.ts";

/** `keys …`: the keys that sign the checkpoints of the logs. */
export function addKeysCommands(program: Command, terminal: Terminal): void {
  const keys = program.command("keys").description("make, rotate and show the keys that sign checkpoints");
  const outputOf = (options: CommonOptions) => createOutput(options.json === true, terminal);
  withCommonOptions(keys.command("generate"))
    .description("make the key file (SVC_LEDGER_KEY) where there is none")
    .action((options: CommonOptions) => generate(options, outputOf(options)));
  const rotating = withCommonOptions(keys.command("rotate"))
    .description("put a new key before the old one: from the next start of the service both sign")
    .option("--finish", "end the overlap: from the next start of the service the new key signs alone; takes no reason");
  withConfirmation(withStatement(rotating)).action((options: RotateOptions) =>
    rotate(options, outputOf(options), terminal),
  );
  withCommonOptions(keys.command("show"))
    .description("print the verifier keys (C2SP vkey) of every log, or of one tenant's")
    .option("--tenant <tenant>", "this tenant's log only")
    .option(
      "--retired",
      "also keys that were retired, each with @ and the tree size that it counts up to; walks the log",
    )
    .action((options: ShowOptions) => {
      const output = outputOf(options);
      return withStoreOrReport(options, output, (opened) => show(options, output, opened));
    });
}

interface RotateOptions extends CommonOptions, StatedOptions {
  readonly finish?: boolean;
}

interface ShowOptions extends CommonOptions {
  readonly tenant?: string;
  readonly retired?: boolean;
}

function generate(options: CommonOptions, output: Output) {
  const path = loadOrReport("keys", options, output)?.ledgerKey;
  if (path === undefined) return;
  if (existsSync(path)) return output.fail([`${path} is there already; \`keys rotate\` changes it`]);
  const key = newKey();
  createKeyFile(path, [key]);
  output.succeed(
    { path, public_key: formatBase64(key.publicKey) },
    `${path}: public key ${formatBase64(key.publicKey)}`,
  );
}

async function rotate(options: RotateOptions, output: Output, terminal: Terminal): Promise<void> {
  const path = loadOrReport("keys", options, output)?.ledgerKey;
  const keys = path === undefined ? undefined : readKeysOrReport(path, output);
  if (path === undefined || keys === undefined) return;
  if (options.finish === true) return finishRotation(options, path, keys, output, terminal);
  const statement = readStatement(options);
  if (!("reason" in statement) && options.dryRun !== true) return output.fail(statement);
  const [current, ...retiring] = keys;
  if (retiring.length > 0)
    return output.fail([`${path}: a rotation is under way; \`keys rotate --finish\` ends its overlap`]);
  const publicKey = formatBase64(current.publicKey);
  const step = {
    question: `Retire the key ${publicKey} of ${path}? From the next start of the service on, every log says so.`,
    text: `${path}: a new key would be put before ${publicKey}, which every log retires at the next start`,
    value: { path, would_retire: publicKey },
  };
  if (!(await confirmStepOrReport(step, options, terminal, output)) || !("reason" in statement)) return;
  const next = { ...newKey(), statement };
  replaceKeyFile(path, [next, current]);
  const said = { public_key: formatBase64(next.publicKey), operator: statement.operator };
  tellSecurity(terminal, "ledger_key_changed", said, "a new ledger key was made");
  const publicKeys = [next, current].map(({ publicKey }) => formatBase64(publicKey));
  output.succeed(
    { path, public_keys: publicKeys },
    `${path}: public key ${publicKeys[0]}; the old one, ${publicKeys[1]}, signs too until \`keys rotate --finish\`\n` +
      "restart the service, and give verifiers the new lines of `keys show`",
  );
}

async function finishRotation(
  options: RotateOptions,
  path: string,
  keys: SigningKeys,
  output: Output,
  terminal: Terminal,
): Promise<void> {
  if ((options.reason ?? options.operator) !== undefined)
    return output.fail(["--reason, --operator: are recorded with the rotation; its end leaves no record"]);
  const [current, ...retiring] = keys;
  if (retiring.length === 0) return output.fail([`${path}: there is no rotation to finish`]);
  let isKnown: boolean | undefined;
  await withStoreOrReport(options, output, async ({ archive }) => {
    const newest = (await archive.signingKeys()).at(-1);
    isKnown = newest !== undefined && sameHash(newest, current.publicKey);
    if (!isKnown) output.fail(["the logs do not know the new key yet: start the service with it first"]);
  });
  if (isKnown !== true) return;
  const publicKey = formatBase64(current.publicKey);
  const removed = retiring.map((key) => formatBase64(key.publicKey));
  const step = {
    question: `Remove the retired key ${removed.join(", ")} from ${path} for good?`,
    text: `${path}: the retired key ${removed.join(", ")} would be removed; ${publicKey} signs alone from the next start`,
    value: { path, would_remove: removed },
  };
  if (!(await confirmStepOrReport(step, options, terminal, output))) return;
  replaceKeyFile(path, [current]);
  output.succeed({ path, public_keys: [publicKey] }, `${path}: public key ${publicKey} alone; restart the service`);
}

async function show(options: ShowOptions, output: Output, opened: OpenedStore): Promise<void> {
  const { archive } = opened;
  const keys = await ownKeysOrReport(opened, output);
  if (keys === undefined) return;
  const heads = (await archive.logs()).filter(
    ({ tenantId }) => options.tenant === undefined || tenantId === options.tenant,
  );
  if (heads.length === 0) return output.fail(["there is no such log"]);
  const withRetired = options.retired === true;
  const signer = new LogSigner(withRetired ? [keys[0]] : keys);
  const logs: ShownLog[] = [];
  for (const head of heads) {
    const { tenantId, origin } = head;
    const retired = withRetired ? { retired_keys: await retiredKeys(archive, head) } : {};
    logs.push({ tenant_id: tenantId, origin, keys: signer.verifierKeys(origin), ...retired });
  }
  output.succeed({ logs }, logs.flatMap((log) => [...log.keys, ...(log.retired_keys ?? [])]).join("\n"));
}

interface ShownLog {
  readonly tenant_id: string;
  readonly origin: string;
  readonly keys: readonly string[];
  readonly retired_keys?: readonly string[];
}

/** The newest first, like the keys of the file. */
async function retiredKeys(archive: StoreArchive, head: LogState): Promise<readonly string[]> {
  const rotations = await findRotations(archive.entries(head, 0, head.size));
  return rotations
    .map(({ leafIndex, previous }) => formatTrustedKey(formatVerifierKey(head.origin, previous), leafIndex))
    .reverse();
}

function readKeysOrReport(path: string, output: Output): SigningKeys | undefined {
  try {
    const keys = readKeyFile(path);
    if (keys === undefined) output.fail([`${path} is missing; \`keys generate\` makes it`]);
    return keys;
  } catch (error) {
    if (!(error instanceof KeyFileError)) throw error;
    output.fail([error.message]);
    return undefined;
  }
}

function newKey(): SigningKey {
  return signingKeyOf(randomFillSync(new Uint8Array(32)));
}
