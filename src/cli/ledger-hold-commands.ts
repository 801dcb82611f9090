import type { Command } from "commander";
import type { LegalHold, StoreKeeper } from "../ledger/keeper.ts";
import { type Parsed, parseOrReport, withKeeperOrReport } from "./ledger-keeper.ts";
import { type CommonOptions, withCommonOptions } from "./options.ts";
import { createOutput, type Output } from "./output.ts";
import type { Terminal } from "./terminal.ts";

interface HoldOptions extends CommonOptions {
  readonly tenant?: string;
  readonly record?: string;
  readonly reason?: string;
}

/** `ledger hold …`: what must not be erased. */
export function addLedgerHoldCommands(ledger: Command, terminal: Terminal): void {
  const hold = ledger.command("hold").description("legal holds: what one covers is not erased");
  withCommonOptions(hold.command("place"))
    .description("forbid that a record, or any record of a tenant, is erased")
    .requiredOption("--tenant <tenant>", "whose records")
    .option("--record <id>", "this record only")
    .requiredOption("--reason <text>", "why; shown to whoever tries")
    .action((options: HoldOptions) => run(options, terminal, place));
  withCommonOptions(hold.command("release"))
    .description("end the hold on exactly this: one on the whole tenant goes on when a record's is released")
    .requiredOption("--tenant <tenant>", "whose records")
    .option("--record <id>", "the hold on this record")
    .action((options: HoldOptions) => run(options, terminal, release));
  withCommonOptions(hold.command("list"))
    .description("show the holds that are in force")
    .option("--tenant <tenant>", "this tenant's only")
    .action((options: HoldOptions) => run(options, terminal, list));
}

/** The hold in words. */
export function describeHold({ tenantId, recordId, reason, placedAtMs }: LegalHold): string {
  const covered = recordId === undefined ? `all of tenant ${tenantId}` : `record ${recordId} of tenant ${tenantId}`;
  return `legal hold on ${covered} since ${new Date(placedAtMs).toISOString()}: ${reason}`;
}

type Work = (keeper: StoreKeeper, parsed: Parsed, options: HoldOptions, output: Output) => Promise<void>;

async function run(options: HoldOptions, terminal: Terminal, work: Work): Promise<void> {
  const output = createOutput(options.json === true, terminal);
  const { record, ...others } = options;
  const parsed = parseOrReport({ ...others, record: record === undefined ? [] : [record] }, output);
  if (parsed !== undefined)
    await withKeeperOrReport(options, output, (keeper) => work(keeper, parsed, options, output));
}

async function place(keeper: StoreKeeper, parsed: Parsed, { reason }: HoldOptions, output: Output): Promise<void> {
  const { tenantId, recordId } = targetOf(parsed);
  if (tenantId === undefined || reason === undefined) return;
  const hold = await keeper.placeHold({ tenantId, recordId, reason });
  if (hold === "erased") return output.fail(["the record is erased: there is nothing to hold"]);
  if (hold === "unknown")
    return output.fail([recordId === undefined ? `tenant ${tenantId} has no log` : "the tenant has no such record"]);
  const value = { hold: membersOf(hold) };
  if (hold.reason === reason) output.succeed(value, describeHold(hold));
  else output.fail(["there is a hold already, for another reason; it stays as it is"], value, describeHold(hold));
}

async function release(keeper: StoreKeeper, parsed: Parsed, _options: HoldOptions, output: Output): Promise<void> {
  const { tenantId, recordId } = targetOf(parsed);
  if (tenantId === undefined) return;
  const hold = await keeper.releaseHold(tenantId, recordId);
  if (hold === undefined) output.fail(["there is no such hold"]);
  else output.succeed({ released: membersOf(hold) }, `released: ${describeHold(hold)}`);
}

async function list(keeper: StoreKeeper, { tenantId }: Parsed, _options: HoldOptions, output: Output): Promise<void> {
  const holds = await keeper.holds(tenantId);
  output.succeed({ holds: holds.map(membersOf) }, holds.map(describeHold).join("\n") || "there are no holds");
}

function targetOf({ tenantId, recordIds: [recordId] }: Parsed) {
  return { tenantId, recordId };
}

function membersOf({ tenantId, recordId, reason, placedAtMs }: LegalHold) {
  return {
    tenant_id: tenantId,
    ...(recordId !== undefined && { record_id: recordId }),
    reason,
    placed_at: new Date(placedAtMs).toISOString(),
  };
}
