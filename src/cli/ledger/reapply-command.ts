import type { Command } from "commander";
import type { TenantId } from "../../base/ids.ts";
import { describeUndone, undoneRemedy } from "../../ledger/audit/undone-erasures.ts";
import type { ErasureStatement } from "../../ledger/ports/record.ts";
import type { ReapplyResult, UndoneErasure } from "../../ledger/ports/records-administration.ts";
import { unerasable } from "../../ledger/record/operator-records.ts";
import {
  confirmOrReport,
  readStatement,
  type StatedOptions,
  withConfirmation,
  withStatement,
} from "../confirmation.ts";
import { type CommonOptions, withCommonOptions } from "../options.ts";
import { createOutput, type Output } from "../output.ts";
import type { Terminal } from "../terminal.ts";
import { parseOrReport, withAdministrationOrReport } from "./administration.ts";
import { describeHold } from "./hold-commands.ts";
import { withStoreOrReport } from "./store.ts";

interface ReapplyOptions extends CommonOptions, StatedOptions {
  readonly tenant?: string;
}

const notOverwritten =
  "removed, and its bytes are still in the store's write-ahead log, because somebody reads an older state: `ledger " +
  "erase` of the same records, when they have ended, overwrites them";

/** `ledger reapply-erasures`: removes again what a restored backup brought back of erased records. */
export function addLedgerReapplyCommand(ledger: Command, terminal: Terminal): void {
  const command = withCommonOptions(ledger.command("reapply-erasures"))
    .description("erase again what a restored backup brought back of erased records; what is held stays")
    .option("--tenant <tenant>", "this tenant's only");
  withConfirmation(withStatement(command)).action(async (options: ReapplyOptions) => {
    const output = createOutput(options.json === true, terminal);
    const parsed = parseOrReport(options, output);
    if (parsed === undefined) return;
    const { tenantId } = parsed;
    const statement = readStatement(options);
    if (!("reason" in statement) && options.dryRun !== true) return output.fail(statement);
    const undone = await findOrReport(options, tenantId, output);
    if (undone === undefined) return;
    const possible = undone.filter(({ refusal }) => refusal === undefined);
    if (options.dryRun === true || possible.length === 0) return printFound(undone, output);
    const question = `${describeUndone(possible).join("; ")}. Erase again for good?`;
    if (!(await confirmOrReport(question, options, terminal, output))) return;
    await withAdministrationOrReport(options, output, async (administration) =>
      printDone(await administration.reapplyErasures(tenantId, statement as ErasureStatement), output),
    );
  });
}

async function findOrReport(
  options: ReapplyOptions,
  tenantId: TenantId | undefined,
  output: Output,
): Promise<readonly UndoneErasure[] | undefined> {
  let undone: readonly UndoneErasure[] | undefined;
  await withStoreOrReport(options, output, async ({ archive }) => {
    undone = (await archive.undoneErasures()).filter((one) => tenantId === undefined || one.tenantId === tenantId);
  });
  return undone;
}

function printFound(undone: readonly UndoneErasure[], output: Output): void {
  const [left, possible] = [undone.filter(isLeft), undone.filter((one) => !isLeft(one))];
  const value = { would_reapply: possible.map(membersOf), left: left.map(membersOf) };
  const lines = [...describeUndone(undone), ...possible.map((one) => `${name(one)} would be erased again`)];
  if (left.length > 0) output.fail(left.map(leftLine), value, lines.join("\n"));
  else output.succeed(value, lines.join("\n") || "nothing that was erased is there again");
}

function printDone({ reapplied, left, overwritten }: ReapplyResult, output: Output): void {
  const value = {
    reapplied: reapplied.map(membersOf),
    left: left.map(membersOf),
    ...(overwritten !== undefined && { overwritten }),
  };
  const lines = reapplied.map((one) => `${name(one)} erased again; leaf ${one.erasureLeafIndex} says so`);
  const problems = [...left.map(leftLine), ...(overwritten === false ? [notOverwritten] : [])];
  if (problems.length > 0) output.fail(problems, value, lines.join("\n"));
  else output.succeed(value, lines.join("\n"));
}

function isLeft({ refusal }: UndoneErasure): boolean {
  return refusal !== undefined;
}

function name({ tenantId, recordId, leafIndex }: UndoneErasure): string {
  return `${recordId} of tenant ${tenantId}: leaf ${leafIndex}`;
}

function leftLine(one: UndoneErasure): string {
  return `${name(one)} is left as it is: ${why(one)}; ${undoneRemedy}`;
}

function why({ refusal }: UndoneErasure): string {
  if (refusal === undefined) return "it came back meanwhile";
  if (refusal.why === "held") return describeHold(refusal.hold);
  if (refusal.why === "unproven") return "the store has it among the erased ones, and no leaf of the log erased it";
  return `a record of kind ${refusal.kind} is never erased: ${unerasable[refusal.kind]}`;
}

function membersOf({ tenantId, recordId, leafIndex, erasureLeafIndex, refusal }: UndoneErasure) {
  return {
    tenant_id: tenantId,
    record_id: recordId,
    leaf_index: leafIndex,
    ...(erasureLeafIndex !== undefined && { erasure_leaf_index: erasureLeafIndex }),
    ...(refusal !== undefined && { why: refusal.why }),
  };
}
