import type { Command } from "commander";
import type { RecordId, TenantId } from "../../base/ids.ts";
import type { LegalHold } from "../../ledger/ports/records-administration.ts";
import {
  confirmStepOrReport,
  readStatement,
  type StatedOptions,
  withConfirmation,
  withStatement,
} from "../confirmation.ts";
import { type CommonOptions, withCommonOptions } from "../options.ts";
import { createOutput, type Output } from "../output.ts";
import type { Terminal } from "../terminal.ts";
import { parseOrReport, withAdministrationOrReport } from "./administration.ts";
import { withStoreOrReport } from "./store.ts";

interface HoldOptions extends CommonOptions, StatedOptions {
  readonly tenant?: string;
  readonly record?: string;
}

/** `ledger hold …`: what must not be erased. */
export function addLedgerHoldCommands(ledger: Command, terminal: Terminal): void {
  const hold = ledger.command("hold").description("legal holds: what one covers is not erased");
  withCommonOptions(hold.command("place"))
    .description("forbid that a record, or any record of a tenant, is erased")
    .requiredOption("--tenant <tenant>", "whose records")
    .option("--record <id>", "this record only")
    .requiredOption("--reason <text>", "why; shown to whoever tries")
    .action((options: HoldOptions) => place(options, terminal));
  const releasing = withCommonOptions(hold.command("release"))
    .description("end the hold on exactly this: one on the whole tenant goes on when a record's is released")
    .requiredOption("--tenant <tenant>", "whose records")
    .option("--record <id>", "the hold on this record");
  withConfirmation(withStatement(releasing)).action((options: HoldOptions) => release(options, terminal));
  withCommonOptions(hold.command("list"))
    .description("show the holds that are in force")
    .option("--tenant <tenant>", "this tenant's only")
    .action((options: HoldOptions) => list(options, terminal));
}

/** The hold in words. */
export function describeHold({ tenantId, recordId, reason, placedAtMs }: LegalHold): string {
  const covered = recordId === undefined ? `all of tenant ${tenantId}` : `record ${recordId} of tenant ${tenantId}`;
  return `legal hold on ${covered} since ${new Date(placedAtMs).toISOString()}: ${reason}`;
}

async function place(options: HoldOptions, terminal: Terminal): Promise<void> {
  const output = createOutput(options.json === true, terminal);
  const parsed = parseHoldOrReport(options, output);
  const { reason } = options;
  if (parsed === undefined || reason === undefined) return;
  const { tenantId, recordId } = parsed;
  await withAdministrationOrReport(options, output, async (administration) => {
    const hold = await administration.placeHold({ tenantId, recordId, reason });
    if (hold === "erased") return output.fail(["the record is erased: there is nothing to hold"]);
    if (hold === "unknown")
      return output.fail([recordId === undefined ? `tenant ${tenantId} has no log` : "the tenant has no such record"]);
    const value = { hold: membersOf(hold) };
    if (hold.reason === reason) return output.succeed(value, describeHold(hold));
    output.fail(["there is a hold already, for another reason; it stays as it is"], value, describeHold(hold));
  });
}

async function release(options: HoldOptions, terminal: Terminal): Promise<void> {
  const output = createOutput(options.json === true, terminal);
  const parsed = parseHoldOrReport(options, output);
  if (parsed === undefined) return;
  const { tenantId, recordId } = parsed;
  const statement = readStatement(options);
  if (!("reason" in statement) && options.dryRun !== true) return output.fail(statement);
  let holds: readonly LegalHold[] | undefined;
  await withStoreOrReport(options, output, async ({ archive }) => {
    holds = await archive.holds(tenantId);
  });
  if (holds === undefined) return;
  const found = holds.find((hold) => hold.recordId === recordId);
  if (found === undefined) return output.fail(["there is no such hold"]);
  const step = {
    question: `Release the ${describeHold(found)}?`,
    text: `would be released: ${describeHold(found)}`,
    value: { would_release: membersOf(found) },
  };
  if (!(await confirmStepOrReport(step, options, terminal, output)) || !("reason" in statement)) return;
  await withAdministrationOrReport(options, output, async (administration) => {
    const hold = await administration.releaseHold(tenantId, recordId, statement);
    if (hold === undefined) output.fail(["there is no such hold"]);
    else output.succeed({ released: membersOf(hold) }, `released: ${describeHold(hold)}`);
  });
}

async function list(options: HoldOptions, terminal: Terminal): Promise<void> {
  const output = createOutput(options.json === true, terminal);
  const parsed = parseOrReport({ ...options, record: [] }, output);
  if (parsed === undefined) return;
  await withStoreOrReport(options, output, async ({ archive }) => {
    const holds = await archive.holds(parsed.tenantId);
    output.succeed({ holds: holds.map(membersOf) }, holds.map(describeHold).join("\n") || "there are no holds");
  });
}

/** What a hold covers, as the options say it. */
function parseHoldOrReport(
  { tenant, record, reason }: HoldOptions,
  output: Output,
): { readonly tenantId: TenantId; readonly recordId: RecordId | undefined } | undefined {
  const named = { ...(tenant !== undefined && { tenant }), ...(reason !== undefined && { reason }) };
  const { tenantId, recordIds } =
    parseOrReport({ ...named, record: record === undefined ? [] : [record] }, output) ?? {};
  return tenantId && { tenantId, recordId: recordIds?.[0] };
}

function membersOf({ tenantId, recordId, reason, placedAtMs }: LegalHold) {
  return {
    tenant_id: tenantId,
    ...(recordId !== undefined && { record_id: recordId }),
    reason,
    placed_at: new Date(placedAtMs).toISOString(),
  };
}
