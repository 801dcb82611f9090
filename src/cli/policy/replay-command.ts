import { parseRecordId } from "../../base/ids.ts";
import { nonePermits } from "../../base/vocabulary.ts";
import type { Evaluated, OutcomeDifference, Replay } from "../../domain/replay.ts";
import { command } from "../frame/command.ts";
import { inStore, logOf, oneTenantFlag, parseNames, withArchive } from "../frame/store.ts";
import { type Answer, Refusal } from "../frame/terminal.ts";
import { askingCedar, compileDirectory } from "./directory.ts";
import { irreproducibleBecause } from "./recorded-decision.ts";

/** Whether a recorded decision is reproduced, and what the current policies decide. */
export const policyReplayCommand = command({
  name: "policy replay",
  says: "evaluate a recorded decision under its own policy revision and under the current one",
  arguments: { "[directory]": "policy directory to compare with (default: SVC_POLICY_DIR)" },
  options: {
    "--decision <id>": { says: "id of the decision", required: true },
    "--tenant <id>": oneTenantFlag,
  },
  run(context) {
    const named = parseNames({ tenant: context.options.tenant }).tenantId;
    const decisionId = parseRecordId(context.options.decision);
    if (decisionId === undefined) throw new Refusal("--decision: is not a decision id");
    return askingCedar(async (engineOptions) => {
      const { engine } = await compileDirectory(context.args[0], context, engineOptions);
      try {
        return await inStore(() =>
          withArchive(context, async ({ archive }) => {
            const tenantId = named ?? (await logOf(archive, undefined)).tenantId;
            // Loaded here, so that other commands start faster.
            const { replayDecision } = await import("../../domain/replay.ts");
            const replay = await replayDecision(archive, tenantId, decisionId, engine, engineOptions);
            if (typeof replay !== "string") return replayAnswer(replay);
            throw irreproducibleBecause(replay);
          }),
        );
      } finally {
        engine.release();
      }
    });
  },
});

function replayAnswer(replay: Replay): Answer {
  const { record, query, sameEngine, own, current } = replay;
  const reproduced = own.differences.length === 0;
  const value = {
    status: reproduced ? "reproduced" : "differs",
    recorded_at: record.recorded_at,
    route: record.route,
    action: query.action,
    recorded: record.outcome,
    same_engine: sameEngine,
    own: evaluatedMembers(own),
    current: current === "not_looked_up" ? { status: current } : evaluatedMembers(current),
  };
  const text = [
    `${query.action} on ${record.route} at ${record.recorded_at}: ${answer(record.outcome)}`,
    `under its own revision ${own.policyRevision}: ${resultText(own)}`,
    ...own.differences.map(differenceLine),
    ...(current === "not_looked_up"
      ? ["under the current revision: unknown, because it reads registrations, which were not looked up then"]
      : [
          `under the current revision ${current.policyRevision}: ${resultText(current)}`,
          ...current.differences.map(differenceLine),
        ]),
  ].join("\n");
  const engine = sameEngine ? "" : ": it was made by another version of the engine";
  return { value, text, problems: reproduced ? [] : [`the recorded decision is not reproduced${engine}`] };
}

function evaluatedMembers({ policyRevision, outcome, differences }: Evaluated) {
  return { policy_revision: policyRevision, outcome, differences };
}

function answer({ allow, reasons }: Replay["record"]["outcome"]): string {
  return `${allow === true ? "ALLOW" : "DENY"}, ${(reasons as readonly string[]).join(", ") || nonePermits}`;
}

function resultText({ outcome, differences }: Evaluated): string {
  return differences.length === 0 ? "the same" : answer(outcome);
}

function differenceLine({ member, recorded, now }: OutcomeDifference): string {
  return `  ${member}: ${JSON.stringify(recorded) ?? "absent"} → ${JSON.stringify(now) ?? "absent"}`;
}
