import { randomFillSync } from "node:crypto";
import type { Command } from "commander";
import { systemClock } from "../../base/clock.ts";
import { formatBase64 } from "../../base/text-forms.ts";
import { systemTimers } from "../../base/timers.ts";
import type { ConfigFor } from "../../config/uses.ts";
import { auditLog } from "../../ledger/audit/audit.ts";
import type { ErasureStatement } from "../../ledger/ports/record.ts";
import type { LogState } from "../../ledger/ports/store.ts";
import { LogSigner } from "../../ledger/tlog/signer.ts";
import { trustedWitnesses } from "../../ledger/witness/http-witness.ts";
import { WitnessLog } from "../../ledger/witness/witness-log.ts";
import { KeyFileError, readKeyFile } from "../../stores/key-file.ts";
import type { SqliteArchive } from "../../stores/sqlite/archive.ts";
import { type StorePaths, sqlitePaths } from "../../stores/sqlite/paths.ts";
import {
  confirmOrReport,
  readStatement,
  type StatedOptions,
  withConfirmation,
  withStatement,
} from "../confirmation.ts";
import { type CommonOptions, loadOrReport, withCommonOptions } from "../options.ts";
import { createOutput, type Output } from "../output.ts";
import { createProgress, type Terminal } from "../terminal.ts";

interface AdoptOptions extends CommonOptions, StatedOptions {
  readonly acceptUnprovenState?: boolean;
}

const warning =
  "Nothing outside the store says any more that these states are the newest. If the store is an older copy, receipts " +
  "exist for records that it lacks, and what is signed from here on contradicts them for ever. Give " +
  "--accept-unproven-state where you know that it is the newest.";

/** `ledger anchor adopt`: the way out for a store that lost its anchor. */
export function addLedgerAnchorCommand(ledger: Command, terminal: Terminal): void {
  const command = ledger.command("anchor").description("the anchor of the store").command("adopt");
  withConfirmation(withStatement(withCommonOptions(command)))
    .description("make a new anchor for a store that lost its own: audits every log, asks the witnesses, records it")
    .option("--accept-unproven-state", "the store is the newest there was, as far as you know; without it only look")
    .action(async (options: AdoptOptions) => {
      const output = createOutput(options.json === true, terminal);
      const config = loadOrReport("anchor", options, output);
      if (config === undefined) return;
      const isVouched = options.acceptUnprovenState === true && options.dryRun !== true;
      const statement = isVouched ? readStatement(options) : undefined;
      if (statement !== undefined && !("reason" in statement)) return output.fail(statement);
      if (config.store.kind !== "sqlite")
        return output.fail(["SVC_STORE: beside PostgreSQL a lost anchor file is made anew at the next start"]);
      const paths = sqlitePaths(config.store.path, config);
      const { SqliteArchive } = await import("../../stores/sqlite/archive.ts");
      const { anchorIsThere } = await import("../../stores/sqlite/log/adopt-anchor.ts");
      const archive = new SqliteArchive(paths);
      try {
        const there = anchorIsThere(paths.path, paths.anchorPath);
        if (there !== undefined) return output.fail([there]);
        const heads = await archive.logs();
        const problems = [...(await audit(archive, heads, terminal)), ...(await askWitnesses(archive, heads, config))];
        await decide({ paths, heads, problems, statement }, options, output, terminal);
      } finally {
        await archive.close();
      }
    });
}

interface Case {
  readonly paths: StorePaths;
  readonly heads: readonly LogState[];
  readonly problems: readonly string[];
  /** Undefined where nobody vouches for the state. */
  readonly statement: ErasureStatement | undefined;
}

async function decide(
  { paths, heads, problems, statement }: Case,
  options: AdoptOptions,
  output: Output,
  terminal: Terminal,
): Promise<void> {
  const logs = heads.map(({ tenantId, origin, size, root }) => ({
    tenant_id: tenantId,
    origin,
    tree_size: size,
    root: formatBase64(root),
  }));
  const lines = logs.map((log) => `${log.origin} (tenant ${log.tenant_id}): ${log.tree_size} leaves, root ${log.root}`);
  if (problems.length > 0) return output.fail([...problems, "nothing was adopted"], { logs }, lines.join("\n"));
  if (statement === undefined && options.acceptUnprovenState !== true)
    return output.fail([warning, "nothing was adopted"], { logs }, lines.join("\n"));
  if (statement === undefined)
    return output.succeed({ dry_run: true, logs }, [...lines, "would be adopted"].join("\n"));
  const question = `Adopt ${logs.length} ${logs.length === 1 ? "log" : "logs"} as the newest, for good?`;
  if (!(await confirmOrReport(question, options, terminal, output))) return;
  const { adoptAnchor } = await import("../../stores/sqlite/log/adopt-anchor.ts");
  adoptAnchor({ ...paths, clock: systemClock, random: (bytes) => randomFillSync(bytes), statement }, heads);
  const done = `${paths.anchorPath} is the anchor; every log has a leaf that says so`;
  output.succeed({ anchor: paths.anchorPath, logs }, [...lines, done].join("\n"));
}

async function audit(archive: SqliteArchive, heads: readonly LogState[], terminal: Terminal): Promise<string[]> {
  const progress = createProgress(terminal);
  const problems: string[] = [];
  for (const head of heads) {
    const { problem } = await auditLog(archive.log(head), {
      onProgress: (leaves) => progress.show(`${head.origin}: ${leaves} leaves`),
    });
    if (problem !== undefined) problems.push(`${head.origin}: ${problem.message}`);
  }
  progress.done();
  return problems;
}

/** Every witness that is set must find every log to go on from what it has seen. */
async function askWitnesses(
  archive: SqliteArchive,
  heads: readonly LogState[],
  { witnesses, ledgerKey }: Pick<ConfigFor<"anchor">, "witnesses" | "ledgerKey">,
): Promise<string[]> {
  const trusted = trustedWitnesses(witnesses, { fetch: globalThis.fetch, timers: systemTimers });
  if (trusted.length === 0) return [];
  const keys = readKeys(ledgerKey);
  if (typeof keys === "string") return [keys];
  const signer = new LogSigner(keys);
  const problems: string[] = [];
  for (const log of heads) {
    const logs = {
      head: async () => log,
      consistencyProof: async (_name: string, first: number, second: number) =>
        archive.withNewest((rows) => rows.tree(log.tenantId, second).consistencyProof(first)),
      sign: signer.sign.bind(signer),
    };
    for (const witness of trusted) {
      const atWitness = new WitnessLog(witness, log, undefined, { logs, clock: systemClock, onEnded: () => {} });
      await atWitness.submit();
      const { status } = atWitness;
      if (status.kind === "unsound") problems.push(status.message);
      if (status.kind === "failed")
        problems.push(`witness ${witness.verifier.name} says nothing of ${log.origin}: ${status.message}`);
    }
  }
  return problems;
}

/** The keys, or what is wrong with their file. */
function readKeys(path: string) {
  try {
    return readKeyFile(path) ?? `${path} is missing`;
  } catch (error) {
    if (error instanceof KeyFileError) return error.message;
    throw error;
  }
}
