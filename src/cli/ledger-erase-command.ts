import type { Command } from "commander";
import { unerasable } from "../ledger/erasure.ts";
import { type ErasedRecord, type ErasureRefusal, type ErasureResult, maxErasedAtOnce } from "../ledger/keeper.ts";
import { describeHold } from "./ledger-hold-commands.ts";
import { parseOrReport, withKeeperOrReport } from "./ledger-keeper.ts";
import { type CommonOptions, withCommonOptions } from "./options.ts";
import { createOutput, type Output } from "./output.ts";
import type { Terminal } from "./terminal.ts";

interface EraseOptions extends CommonOptions {
  readonly tenant: string;
  readonly record: readonly string[];
  readonly reason?: string;
}

const notOverwritten =
  "erased, and the service shows it to nobody; its bytes are still in the store's write-ahead log, because somebody " +
  "reads an older state: run this again when they have ended";

/** `ledger erase`: makes records unreadable for good, and says so in the log. */
export function addLedgerEraseCommand(ledger: Command, terminal: Terminal): void {
  withCommonOptions(ledger.command("erase"))
    .description("erase records for good, all or none: their leaves stay, and a leaf for each says that it was erased")
    .requiredOption("--tenant <tenant>", "whose records")
    .requiredOption("--record <id...>", `ids of the records, ${maxErasedAtOnce} at most`)
    .option("--reason <text>", "is recorded in the log, and can never be erased: name nobody")
    .action(async (options: EraseOptions) => {
      const output = createOutput(options.json === true, terminal);
      const { tenantId, recordIds } = parseOrReport(options, output) ?? {};
      if (tenantId === undefined || recordIds === undefined) return;
      if (recordIds.length > maxErasedAtOnce) return output.fail([`--record: ${maxErasedAtOnce} at most`]);
      await withKeeperOrReport(options, output, async (keeper) =>
        tell(await keeper.erase(tenantId, recordIds, { reason: options.reason }), output),
      );
    });
}

function tell(result: ErasureResult, output: Output): void {
  if ("refused" in result) tellRefused(result.refused, output);
  else tellErased(result.erased, result.overwritten, output);
}

function tellRefused(refusals: readonly ErasureRefusal[], output: Output): void {
  const refused = refusals.map((refusal) => ({ record_id: refusal.recordId, why: refusal.why }));
  const problems = refusals.map((refusal) => `${refusal.recordId}: ${why(refusal)}`);
  output.fail([...problems, "nothing was erased"], { refused });
}

function tellErased(records: readonly ErasedRecord[], overwritten: boolean | undefined, output: Output): void {
  const value = { erased: records.map(membersOf), ...(overwritten !== undefined && { overwritten }) };
  const text = records.map(line).join("\n");
  if (overwritten === false) output.fail([notOverwritten], value, text);
  else output.succeed(value, text);
}

function why(refusal: ErasureRefusal): string {
  if (refusal.why === "unknown") return "the tenant has no such record";
  if (refusal.why === "kind") return `a record of kind ${refusal.kind} is never erased: ${unerasable[refusal.kind]}`;
  return describeHold(refusal.hold);
}

function membersOf({ recordId, leafIndex, erasureLeafIndex, erasedAt, wasErased }: ErasedRecord) {
  return {
    record_id: recordId,
    leaf_index: leafIndex,
    erasure_leaf_index: erasureLeafIndex,
    erased_at: erasedAt,
    was_erased: wasErased,
  };
}

function line({ recordId, leafIndex, erasureLeafIndex, erasedAt, wasErased }: ErasedRecord): string {
  return `${recordId}: leaf ${leafIndex} ${wasErased ? "was erased already," : "erased"} by leaf ${erasureLeafIndex} at ${erasedAt}`;
}
