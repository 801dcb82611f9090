import { randomFillSync } from "node:crypto";
import type { Command } from "commander";
import { systemClock } from "../base/clock.ts";
import type { StoreLocation } from "../base/postgres-url.ts";
import { formatBase64 } from "../base/text-forms.ts";
import { storeLocation } from "../config/parsers.ts";
import { ValueProblem } from "../config/raw.ts";
import type { ConfigFor } from "../config/uses.ts";
import type { CopiedStore } from "../stores/copy-store.ts";
import { sqlitePaths } from "../stores/sqlite/paths.ts";
import {
  confirmOrReport,
  confirmStatedStepOrReport,
  logStep,
  readStatement,
  type StatedOptions,
  withConfirmation,
  withLoggedStatement,
} from "./confirmation.ts";
import { type CommonOptions, loadOrReport, withCommonOptions } from "./options.ts";
import { createOutput, type Output } from "./output.ts";
import { addStoreBackupCommand, addStoreCompactCommand } from "./store-upkeep-commands.ts";
import { createProgress, type Terminal } from "./terminal.ts";

interface CopyCommandOptions extends CommonOptions, StatedOptions {
  readonly from: string;
  readonly to?: string;
  readonly abandon?: boolean;
}

type CopyConfig = ConfigFor<"store_copy">;

const stillSealed =
  "The database is not served. Where the source is sealed it stays so: run the command again, or take the seal off " +
  "with --abandon.";

/** `store …`: commands about a store as a whole. */
export function addStoreCommands(program: Command, terminal: Terminal): void {
  const store = program.command("store").description("back up, compact and move a store");
  addStoreBackupCommand(store, terminal);
  addStoreCompactCommand(store, terminal);
  withConfirmation(withLoggedStatement(withCommonOptions(store.command("copy"))))
    .description("seal an embedded store, move it to an empty PostgreSQL database, and verify every log there")
    .requiredOption("--from <url>", "sqlite:<path>; SVC_ANCHOR and SVC_LEDGER_KEY are its anchor and its key")
    .option("--to <url>", "postgres://…, made by `migrate`; SVC_STORE_PASSWORD_FILE has its password")
    .option("--abandon", "take the seal of a copy that was not finished from the source, instead of copying")
    .action(async (options: CopyCommandOptions) => {
      const output = createOutput(options.json === true, terminal);
      const config = loadOrReport("store_copy", options, output);
      if (config === undefined) return;
      const from = parseOrReport("--from", "sqlite", options.from, output);
      if (from === undefined) return;
      if (options.abandon === true) return abandon(from.path, config, options, output, terminal);
      if (options.to === undefined) return output.fail(["--to: is missing"]);
      const to = parseOrReport("--to", "postgres", options.to, output);
      if (to === undefined) return;
      const statement = readStatement(options);
      if (!("reason" in statement) && options.dryRun !== true) return output.fail(statement);
      // The URL of the database may carry a password.
      const question = `Seal ${from.path} for good, and go on with its logs in the database of --to?`;
      if (options.dryRun !== true && !(await confirmOrReport(question, options, terminal, output))) return;
      const copied = await copy(from, to, config, options.dryRun === true, output, terminal);
      if (copied === undefined || options.dryRun === true || !("reason" in statement)) return;
      const fields = { source: from.path, target_store_id: copied.targetStoreId };
      await logStep("store copy", statement, fields, terminal);
    });
}

type Located<Kind extends StoreLocation["kind"]> = Extract<StoreLocation, { readonly kind: Kind }>;

/** Reads a URL of that kind; where it is none, reports why. Repeats nothing of it: a URL may carry a password. */
function parseOrReport<Kind extends StoreLocation["kind"]>(
  option: string,
  kind: Kind,
  url: string,
  output: Output,
): Located<Kind> | undefined {
  try {
    const location = storeLocation(url);
    if (location.kind === kind) return location as Located<Kind>;
    output.fail([`${option}: must be a store of kind ${kind}`]);
  } catch (error) {
    if (!(error instanceof ValueProblem)) throw error;
    output.fail([`${option}: ${error.message}`]);
  }
  return undefined;
}

async function copy(
  from: Located<"sqlite">,
  { target }: Located<"postgres">,
  config: CopyConfig,
  isDryRun: boolean,
  output: Output,
  terminal: Terminal,
): Promise<CopiedStore | undefined> {
  const { copyStore, previewCopy } = await import("../stores/copy-store.ts");
  const progress = createProgress(terminal);
  const copying = (isDryRun ? previewCopy : copyStore)({
    from: sqlitePaths(from.path, config),
    to: { target, passwordFile: config.storePasswordFile },
    clock: systemClock,
    random: (bytes) => randomFillSync(bytes),
    onProgress: progress.show,
  });
  const result = await copying
    .catch((error: unknown) => ({ problems: [error instanceof Error ? error.message : String(error)] }))
    .finally(progress.done);
  if ("problems" in result) {
    output.fail([...result.problems, ...(isDryRun ? [] : [stillSealed])]);
    return undefined;
  }
  report(result, isDryRun, output);
  return result;
}

function report({ targetStoreId, logs, wasFinished }: CopiedStore, isDryRun: boolean, output: Output): void {
  const described = logs.map(({ tenantId, origin, size, root }) => ({
    tenant_id: tenantId,
    origin,
    tree_size: size,
    root: formatBase64(root),
  }));
  const lines = described.map(
    (log) => `ok ${log.origin} (tenant ${log.tenant_id}): ${log.tree_size} leaves, root ${log.root}`,
  );
  const done = wasFinished
    ? `the store was copied to ${targetStoreId} by an earlier run`
    : isDryRun
      ? `would be copied to the store ${targetStoreId}, and the source sealed for good`
      : `copied to the store ${targetStoreId}, which goes on with the logs; the source is sealed for good`;
  const value = {
    ...(isDryRun && { dry_run: true }),
    target_store_id: targetStoreId,
    was_finished: wasFinished,
    logs: described,
  };
  output.succeed(value, [...lines, done].join("\n"));
}

async function abandon(
  path: string,
  config: CopyConfig,
  options: StatedOptions,
  output: Output,
  terminal: Terminal,
): Promise<void> {
  const { abandonCopy, hasBrokenSeal } = await import("../stores/sqlite/schema/copy-source.ts");
  const paths = sqlitePaths(path, config);
  try {
    const isOn = hasBrokenSeal(paths);
    const step = {
      question: `Take the seal off ${path}? What a copy has brought to a database is worth nothing then.`,
      text: isOn ? `the seal would be taken off ${path}` : `${path} is not sealed`,
      value: { is_sealed: isOn },
    };
    // Also where it is off: the command may have ended before it was off the anchor.
    const statement = await confirmStatedStepOrReport(step, options, terminal, output);
    if (statement === undefined) return;
    const wasSealed = abandonCopy(paths);
    await logStep("store copy --abandon", statement, { source: path, was_sealed: wasSealed }, terminal);
    output.succeed({ was_sealed: wasSealed }, wasSealed ? `the seal is off ${path}` : `${path} was not sealed`);
  } catch (error) {
    output.fail([error instanceof Error ? error.message : String(error)]);
  }
}
