import { describeUndone, undoneRemedy } from "../../ledger/audit/undone-erasures.ts";
import type { ReapplyResult, UndoneErasure } from "../../ledger/ports/records-administration.ts";
import { unerasable } from "../../ledger/record/operator-records.ts";
import { command } from "../frame/command.ts";
import { readStatement, recordedStepFlags } from "../frame/confirmation.ts";
import type { Answer } from "../frame/output.ts";
import { parseNames, withAdministration, withArchive } from "../frame/store.ts";
import { describeHold } from "./hold-commands.ts";

const notOverwritten =
  "removed, and its bytes are still in the store's write-ahead log, because a reader holds an older state: `ledger " +
  "erase` of the same records, when they have ended, overwrites them";

/** Erases again the records that a restored backup brought back. */
export const ledgerReapplyCommand = command({
  name: "ledger reapply-erasures",
  says: "erase again what a restored backup brought back of erased records; what is held stays",
  options: { "--tenant <tenant>": "this tenant's only", ...recordedStepFlags },
  async run(context) {
    const { tenantId } = parseNames(context.options);
    if (context.options.dryRun !== true) readStatement(context.options);
    const undone = await withArchive(context, async ({ archive }) =>
      (await archive.undoneErasures()).filter((one) => tenantId === undefined || one.tenantId === tenantId),
    );
    const possible = undone.filter((one) => !isLeft(one));
    const preview = foundAnswer(undone);
    if (possible.length === 0) return preview;
    return {
      question: `${describeUndone(possible).join("; ")}. Erase again for good?`,
      preview,
      take: (statement) =>
        withAdministration(context, async (administration) =>
          doneAnswer(await administration.reapplyErasures(tenantId, statement)),
        ),
    };
  },
});

function foundAnswer(undone: readonly UndoneErasure[]): Answer {
  const [left, possible] = [undone.filter(isLeft), undone.filter((one) => !isLeft(one))];
  const lines = [...describeUndone(undone), ...possible.map((one) => `${name(one)} would be erased again`)];
  return {
    value: { would_reapply: possible.map(membersOf), left: left.map(membersOf) },
    text: lines.join("\n") || "nothing that was erased is there again",
    problems: left.map(leftLine),
  };
}

function doneAnswer({ reapplied, left, overwritten }: ReapplyResult): Answer {
  return {
    value: {
      reapplied: reapplied.map(membersOf),
      left: left.map(membersOf),
      ...(overwritten !== undefined && { overwritten }),
    },
    text: reapplied.map((one) => `${name(one)} erased again; leaf ${one.erasureLeafIndex} says so`).join("\n"),
    problems: [...left.map(leftLine), ...(overwritten === false ? [notOverwritten] : [])],
  };
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
