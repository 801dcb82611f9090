import type { Command } from "commander";
import { type ErasureStatement, unerasable } from "../ledger/erasure.ts";
import {
  type ErasedRecord,
  type ErasurePreview,
  type ErasureRefusal,
  type ErasureResult,
  maxErasedAtOnce,
} from "../ledger/keeper.ts";
import {
  type ConfirmationOptions,
  confirmOrReport,
  readStatement,
  type StatementOptions,
  withConfirmation,
  withStatement,
} from "./confirmation.ts";
import { describeHold } from "./ledger-hold-commands.ts";
import { parseOrReport, withKeeperOrReport } from "./ledger-keeper.ts";
import { withStoreOrReport } from "./ledger-store.ts";
import { type CommonOptions, withCommonOptions } from "./options.ts";
import { createOutput, type Output } from "./output.ts";
import type { Terminal } from "./terminal.ts";

interface EraseOptions extends CommonOptions, ConfirmationOptions, StatementOptions {
  readonly tenant: string;
  readonly record: readonly string[];
}

const notOverwritten =
  "erased, and the service shows it to nobody; its bytes are still in the store's write-ahead log, because somebody " +
  "reads an older state: run this again when they have ended";

/** `ledger erase`: makes records unreadable for good, and says so in the log. */
export function addLedgerEraseCommand(ledger: Command, terminal: Terminal): void {
  const command = withCommonOptions(ledger.command("erase"))
    .description("erase records for good, all or none: their leaves stay, and a leaf for each says that it was erased")
    .requiredOption("--tenant <tenant>", "whose records")
    .requiredOption("--record <id...>", `ids of the records, ${maxErasedAtOnce} at most`);
  withConfirmation(withStatement(command)).action(async (options: EraseOptions) => {
    const output = createOutput(options.json === true, terminal);
    const { tenantId, recordIds } = parseOrReport(options, output) ?? {};
    if (tenantId === undefined || recordIds === undefined) return;
    if (recordIds.length > maxErasedAtOnce) return output.fail([`--record: ${maxErasedAtOnce} at most`]);
    const statement = readStatement(options);
    if (!("reason" in statement) && options.dryRun !== true) return output.fail(statement);
    let preview: ErasurePreview | undefined;
    await withStoreOrReport(options, output, async ({ archive }) => {
      preview = await archive.previewErasure(tenantId, recordIds);
    });
    if (preview === undefined) return;
    if ("refused" in preview) return tellRefused(preview.refused, output);
    if (options.dryRun === true) return tellPreview(preview, output);
    const { length } = preview.erasable;
    const question = `Erase ${length} ${length === 1 ? "record" : "records"} of tenant ${tenantId} for good?`;
    // Erasing again what is erased destroys nothing.
    if (length > 0 && !(await confirmOrReport(question, options, terminal, output))) return;
    await withKeeperOrReport(options, output, async (keeper) =>
      tell(await keeper.erase(tenantId, recordIds, statement as ErasureStatement), output),
    );
  });
}

function tell(result: ErasureResult, output: Output): void {
  if ("refused" in result) tellRefused(result.refused, output);
  else tellErased(result.erased, result.overwritten, output);
}

function tellPreview({ erasable, erased }: Exclude<ErasurePreview, { refused: unknown }>, output: Output): void {
  const lines = [
    ...erasable.map(({ recordId, leafIndex, kind }) => `${recordId}: leaf ${leafIndex}, ${kind}, would be erased`),
    ...erased.map(line),
  ];
  const would_erase = erasable.map(({ recordId, leafIndex, kind }) => ({
    record_id: recordId,
    leaf_index: leafIndex,
    kind,
  }));
  output.succeed({ dry_run: true, would_erase, erased: erased.map(membersOf) }, lines.join("\n"));
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
