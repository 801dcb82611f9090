import type { Command } from "commander";
import { parseRecordId, parseTenantId } from "../../base/ids.ts";
import type { Evaluated, Irreproducible, OutcomeDifference, Replay } from "../../domain/replay.ts";
import { storeBackend } from "../../stores/backends.ts";
import { type CommonOptions, loadOrReport, storeProblem, withCommonOptions } from "../options.ts";
import { createOutput, type Output } from "../output.ts";
import type { Terminal } from "../terminal.ts";
import { askingCedar, compileOrReport } from "./directory.ts";
import { irreproducible } from "./recorded-decision.ts";

interface ReplayOptions extends CommonOptions {
  readonly decision: string;
  readonly tenant: string;
}

/** `policy replay`: whether a recorded decision comes out again, and what it would be now. */
export function addPolicyReplayCommand(policy: Command, terminal: Terminal): void {
  withCommonOptions(policy.command("replay"))
    .argument("[directory]", "policy directory to compare with (default: SVC_POLICY_DIR)")
    .requiredOption("--decision <id>", "id of the decision")
    .requiredOption("--tenant <id>", "tenant of the decision")
    .description("evaluate a recorded decision under its own policy revision and under the current one")
    .action(async (argument: string | undefined, options: ReplayOptions) => {
      const { output, engineOptions } = askingCedar(createOutput(options.json === true, terminal));
      const [tenantId, decisionId] = [parseTenantId(options.tenant), parseRecordId(options.decision)];
      if (tenantId === undefined) return output.fail(["--tenant: is no tenant id"]);
      if (decisionId === undefined) return output.fail(["--decision: is no decision id"]);
      const settings = loadOrReport("policy_replay", options, output);
      if (settings === undefined) return;
      const compiled = await compileOrReport(argument, options, output, engineOptions);
      if (compiled === undefined) return;
      try {
        const archive = await (await storeBackend(settings)).openArchive();
        try {
          // Loaded here, so that no other command pays for it.
          const { replayDecision } = await import("../../domain/replay.ts");
          printResult(await replayDecision(archive, tenantId, decisionId, compiled.engine, engineOptions), output);
        } finally {
          await archive.close();
        }
      } catch (error) {
        output.fail([storeProblem(error)]);
      } finally {
        compiled.engine.release();
      }
    });
}

function printResult(replay: Replay | Irreproducible, output: Output): void {
  if (typeof replay === "string") output.fail([irreproducible[replay]], { status: replay });
  else printReplay(replay, output);
}

function printReplay(replay: Replay, output: Output): void {
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
      ? ["under the current revision: unknown, because it reads what was registered, which nobody looked up then"]
      : [
          `under the current revision ${current.policyRevision}: ${resultText(current)}`,
          ...current.differences.map(differenceLine),
        ]),
  ].join("\n");
  const engine = sameEngine ? "" : ": it was made by another version of the engine";
  if (reproduced) output.succeed(value, text);
  else output.fail([`the recorded decision does not come out again${engine}`], value, text);
}

function evaluatedMembers({ policyRevision, outcome, differences }: Evaluated) {
  return { policy_revision: policyRevision, outcome, differences };
}

function answer({ allow, reasons }: Replay["record"]["outcome"]): string {
  return `${allow === true ? "ALLOW" : "DENY"}, ${(reasons as readonly string[]).join(", ") || "no policy permits it"}`;
}

function resultText({ outcome, differences }: Evaluated): string {
  return differences.length === 0 ? "the same" : answer(outcome);
}

function differenceLine({ member, recorded, now }: OutcomeDifference): string {
  return `  ${member}: ${JSON.stringify(recorded) ?? "absent"} → ${JSON.stringify(now) ?? "absent"}`;
}
