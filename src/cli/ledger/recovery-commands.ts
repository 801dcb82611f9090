/** Commands after a loss: adopt a log for a new anchor, accept a time of the clock, erase again what a backup restored. */
import { systemClock } from "../../base/clock.ts";
import { systemRandom } from "../../base/ids.ts";
import { plural } from "../../base/visible-text.ts";
import type { ConfigFor } from "../../config/config.ts";
import { auditLog } from "../../ledger/audit/audit.ts";
import { describeUndone, undoneRemedy } from "../../ledger/audit/undone-erasures.ts";
import type { ReapplyResult, UndoneErasure } from "../../ledger/ports/records-administration.ts";
import type { LogState } from "../../ledger/ports/store.ts";
import { LogSigner } from "../../ledger/tlog/signer.ts";
import type { OperatorArchive } from "../../stores/sql/archive.ts";
import { sqlitePaths } from "../../stores/sqlite/paths.ts";
import { command, readStatement, recordedStepFlags } from "../frame/command.ts";
import { logLine, logMembers, logsOf, parseNames, withAdministration, withArchive } from "../frame/store.ts";
import { type Answer, type Progress, Refusal, unfinished, untilFailure } from "../frame/terminal.ts";
import { describeRefusal } from "./erasure-commands.ts";
import { askWitnesses, readKeys } from "./keys-commands.ts";

const warning =
  "Nothing outside the store says any more that these states are the newest. If the store is an older copy, receipts " +
  "exist for records that it lacks, and what is signed from here on contradicts them permanently. Give " +
  "--accept-unproven-state if you know that it is the newest.";

/** Recovery of a store that lost its anchor. */
export const ledgerAnchorCommand = command({
  name: "ledger anchor adopt",
  says: "make a new anchor for a store that lost its own: audits every log, asks the witnesses, records it",
  options: {
    ...recordedStepFlags,
    "--accept-unproven-state": "the store is the newest there was, as far as you know; without it only look",
  },
  async run({ options, load, progress }) {
    const config = load("anchor");
    const isVouched = options.acceptUnprovenState === true;
    // Before the long audit.
    if (isVouched && options.dryRun !== true) readStatement(options);
    if (config.store.kind !== "sqlite")
      throw new Refusal("SVC_STORE: beside PostgreSQL the next start makes a lost anchor file again");
    const paths = sqlitePaths(config.store.path, config.anchor);
    const { openSqliteArchive } = await import("../../stores/sqlite/backend.ts");
    const { adoptAnchor, anchorIsThere } = await import("../../stores/sqlite/adopt-anchor.ts");
    const archive = openSqliteArchive(paths);
    try {
      const there = anchorIsThere(paths.path, paths.anchorPath);
      if (there !== undefined) throw new Refusal(there);
      const heads = await archive.logs();
      const found = [...(await audit(archive, heads, progress)), ...(await askAllWitnesses(archive, heads, config))];
      const logs = heads.map(logMembers);
      const lines = logs.map(logLine);
      const problems = found.length > 0 || isVouched ? found : [warning];
      if (problems.length > 0)
        throw new Refusal([...problems, "nothing was adopted"], { value: { logs }, text: lines.join("\n") });
      return {
        question: `Adopt ${plural(logs.length, "log")} as the newest, for good?`,
        preview: { value: { logs }, text: [...lines, "would be adopted"].join("\n") },
        async take(statement) {
          await adoptAnchor({ ...paths, ...statement, clock: systemClock, random: systemRandom }, heads);
          const done = `${paths.anchorPath} is the anchor; every log has a leaf that says so`;
          return { value: { anchor: paths.anchorPath, logs }, text: [...lines, done].join("\n") };
        },
      };
    } finally {
      await archive.close();
    }
  },
});

async function audit(archive: OperatorArchive, heads: readonly LogState[], progress: Progress): Promise<string[]> {
  const problems: string[] = [];
  for (const head of heads) {
    const { problem } = await auditLog(archive, head, {
      onProgress: (leaves) => progress(`${head.origin}: ${leaves} leaves`),
    });
    if (problem !== undefined) problems.push(`${head.origin}: ${problem.message}`);
  }
  return problems;
}

/** Every configured witness must find that every log continues the state that it has seen. */
async function askAllWitnesses(
  archive: OperatorArchive,
  heads: readonly LogState[],
  { witnesses, ledgerKey }: Pick<ConfigFor<"anchor">, "witnesses" | "ledgerKey">,
): Promise<string[]> {
  if (witnesses.length === 0) return [];
  const signer = new LogSigner(readKeys(ledgerKey));
  const problems: string[] = [];
  for (const log of heads) {
    const { consistencyProof } = archive;
    const logs = { head: async () => log, consistencyProof, sign: signer.sign.bind(signer) };
    for (const { message } of await askWitnesses(log, witnesses, logs)) problems.push(message);
  }
  return problems;
}

/** Recovery of a store that was written to while the clock was ahead. */
export const ledgerClockCommand = command({
  name: "ledger clock accept",
  says: "record that a clock was ahead, so that the service starts on logs whose newest time has not come yet",
  options: recordedStepFlags,
  async run(context) {
    const nowMs = systemClock.now();
    const ahead = await withArchive(context, ({ archive }) => archive.logsAhead(nowMs));
    if (ahead.length === 0) return { value: { logs: [] }, text: "no log has a time to accept" };
    const logs = ahead.map(({ tenantId, origin, lastRecordedAtMs }) => {
      return { tenant_id: tenantId, origin, accepted_time: new Date(lastRecordedAtMs).toISOString() };
    });
    const lines = logs.map((log) => `${log.origin} (tenant ${log.tenant_id}): newest record of ${log.accepted_time}`);
    const clock = `This machine's clock says ${new Date(nowMs).toISOString()}`;
    return {
      question: `${lines.join("; ")}. ${clock}. Accept these times for good?`,
      preview: { value: { logs }, text: [...lines, `${clock}: would be accepted`].join("\n") },
      take: (statement) =>
        withAdministration(context, async (administration) => {
          async function* accepted() {
            for (const log of logs) if (await administration.acceptTime(log.tenant_id, statement)) yield log;
          }
          const { done, failure } = await untilFailure(accepted());
          const text = [...lines, `logs with a new leaf that accepts this: ${done.length}`].join("\n");
          return { value: { logs: done }, text, problems: unfinished(failure, "times are accepted") };
        }),
    };
  },
});

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
    const undone = await withArchive(context, async ({ archive }) => {
      await logsOf(archive, tenantId);
      return (await archive.undoneErasures()).filter((one) => tenantId === undefined || one.tenantId === tenantId);
    });
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
    text: lines.join("\n") || "no erased record came back",
    problems: left.map(leftLine),
  };
}

function doneAnswer({ reapplied, left, overwritten, failure }: ReapplyResult): Answer {
  return {
    value: {
      reapplied: reapplied.map(membersOf),
      left: left.map(membersOf),
      ...(overwritten !== undefined && { overwritten }),
    },
    text: reapplied.map((one) => `${name(one)} erased again; leaf ${one.erasureLeafIndex} says so`).join("\n"),
    problems: [
      ...left.map(leftLine),
      ...unfinished(failure, "that came back are erased again"),
      ...(overwritten === false ? [notOverwritten] : []),
    ],
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
  return refusal === undefined ? "it came back meanwhile" : describeRefusal(refusal);
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
