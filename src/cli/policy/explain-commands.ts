/** `policy explain` and `policy replay`: why policies decide as they do, of a question or of a recorded decision. */

import { existsSync } from "node:fs";
import { parseRecordId, type RecordId, type TenantId } from "../../base/ids.ts";
import { nonePermits } from "../../base/vocabulary.ts";
import type { Evaluated, Irreproducible, OutcomeDifference, Replay } from "../../domain/replay.ts";
import type { StoreArchive } from "../../ledger/ports/archive.ts";
import type { FoundRecord } from "../../ledger/ports/search.ts";
import { everyFound } from "../../ledger/search/search-query.ts";
import type { CompiledEngine } from "../../policy/engine/engine.ts";
import { type Context, command } from "../frame/command.ts";
import { inStore, logOf, oneTenantFlag, parseNames, withArchive } from "../frame/store.ts";
import { type Answer, Refusal } from "../frame/terminal.ts";
import { byCedar, compileDirectory } from "./directory.ts";
import { explanationText } from "./explanation-text.ts";
import { type Question, queryFlags, readQuestion } from "./query.ts";

/** Explains an answer. A denial is not a failure of the command. */
export const policyExplainCommand = command({
  name: "policy explain",
  says: "show which policies decide a question, what they say and read, and why the others do not decide",
  arguments: {
    "[directory]": "policy directory (default: SVC_POLICY_DIR; of a recorded decision, what decided it)",
  },
  options: {
    ...queryFlags,
    "--decision <id>": "a recorded decision of --tenant, or of the only tenant with a log",
    "--request-id <id>": "the decision of --tenant that answered the request with this id",
  },
  async run(context) {
    const { options, args } = context;
    if (options.decision !== undefined || options.requestId !== undefined) return explainRecorded(args[0], context);
    const { engine } = await compileDirectory(args[0], context, byCedar);
    const question = await readQuestion(options, engine.callerAttributes);
    const newest = await lookUpNewestDecision(context, question.query.caller.tenantId);
    return explanationOf(question, engine, newest);
  },
});

const notLookedUp =
  "these policies read registrations, which were not looked up then: they are shown as if there were none";

function explanationOf(
  { query, record, isComplete = true }: Question,
  engine: CompiledEngine,
  newest: NewestDecision | string | undefined,
): Answer {
  const explanation = engine.explain(query);
  const unknown = isComplete || !engine.readsRegistered(query) ? [] : [notLookedUp];
  const warnings = [...unknown, ...revisionWarnings(engine.revision, query.caller.tenantId, newest)];
  const { record_id, request_id, recorded_at, route, outcome } = record ?? {};
  return {
    value: {
      ...explanation,
      ...(record !== undefined && { record: { record_id, request_id, recorded_at, route, outcome } }),
      warnings,
    },
    text: [
      explanationText(explanation),
      ...(outcome === undefined
        ? []
        : [
            `recorded at ${recorded_at} as ${record_id}: ${outcome.allow === true ? "ALLOW" : "DENY"} ` +
              `under ${outcome.policy_revision}, ${[outcome.reasons].flat().join(", ") || nonePermits}`,
          ]),
      ...warnings.map((warning) => `warning: ${warning}`),
    ].join("\n"),
  };
}

// A recorded decision, the engine to evaluate it with, and `policy replay`.

interface RecordedOptions {
  readonly tenant?: string;
  readonly decision?: string;
  readonly requestId?: string;
  /** Options that describe another question. */
  readonly action?: string;
  readonly request?: string;
}

/** Reasons why a decision cannot be evaluated again. */
const irreproducible: Readonly<Record<Irreproducible, string>> = {
  unknown: "the tenant has no record with this id",
  erased: "erased",
  not_a_decision: "the record is not a decision",
  revision_missing: "the policy revision that decided was not kept",
  revision_refused: "the policy revision that decided does not compile any more",
};

/** What was found. Throws a Refusal if the decision cannot be evaluated again. */
function orRefuse<Found extends object>(found: Found | Irreproducible): Found {
  if (typeof found !== "string") return found;
  throw new Refusal(irreproducible[found], { value: { status: found } });
}

/** Does work with the store of the settings, about the tenant or the only one with a log. */
function ofTenant(
  context: Context,
  named: TenantId | undefined,
  work: (archive: StoreArchive, tenantId: TenantId) => Promise<Answer>,
): Promise<Answer> {
  return inStore(() =>
    withArchive(context, async ({ archive }) => work(archive, named ?? (await logOf(archive, undefined)).tenantId)),
  );
}

/** Explains a recorded decision under the directory if one is given, else under the revision that decided. */
async function explainRecorded(directory: string | undefined, context: Context<RecordedOptions>): Promise<Answer> {
  const { options } = context;
  const named = parseNames({ tenant: options.tenant }).tenantId;
  const problem = problemOf(options);
  if (problem !== undefined) throw new Refusal(problem);
  // Loaded here, so that other commands start faster.
  const { compileRecorded, findDecision } = await import("../../domain/replay.ts");
  return ofTenant(context, named, async (archive, tenantId) => {
    const found = orRefuse(await findDecision(archive, tenantId, await decisionIdOf(archive, tenantId, options)));
    const { engine } =
      directory === undefined
        ? orRefuse(await compileRecorded(archive, found.record, byCedar))
        : await compileDirectory(directory, context, byCedar);
    return explanationOf(found, engine, await newestDecision(archive, tenantId));
  });
}

function problemOf({ decision, requestId, action, request }: RecordedOptions): string | undefined {
  if (decision !== undefined && requestId !== undefined) return "--decision and --request-id exclude each other";
  if (action !== undefined || request !== undefined) {
    return "--decision and --request-id take the place of --request, --action and what describes the request";
  }
  return decision !== undefined && parseRecordId(decision) === undefined
    ? "--decision: is not a decision id"
    : undefined;
}

async function decisionIdOf(
  archive: Pick<StoreArchive, "search" | "logs">,
  tenantId: TenantId,
  { decision, requestId = "" }: RecordedOptions,
): Promise<RecordId> {
  const decisionId = decision === undefined ? undefined : parseRecordId(decision);
  if (decisionId !== undefined) return decisionId;
  const found = await decisionsOf(archive, tenantId, requestId);
  const [only, ...others] = found;
  if (only === undefined) throw new Refusal("--request-id: the tenant has no decision of a request with this id");
  if (others.length === 0) return only.recordId;
  throw new Refusal([
    "--request-id: several decisions have this id; name one with --decision",
    ...found.map(({ recordId, recordedAt }) => `${recordId} of ${recordedAt}`),
  ]);
}

/** Decisions of the request; clients choose the ids, so several requests may have the same. */
async function decisionsOf(
  archive: Pick<StoreArchive, "search">,
  tenantId: TenantId,
  requestId: string,
): Promise<readonly FoundRecord[]> {
  const decisions: FoundRecord[] = [];
  const terms = [{ field: "request_id", value: requestId } as const];
  for await (const found of everyFound(archive, { tenantId, terms })) {
    if (found.kind === "decision" && !found.erased) decisions.push(found);
    if (decisions.length === maxNamed) break;
  }
  return decisions;
}

/** Most decisions that are listed. */
const maxNamed = 20;

// The revision in force, as far as a store shows it.

/** The newest decision of a tenant, erased or not: its revision was in force then, and may still be. */
type NewestDecision = Required<Pick<FoundRecord, "policyRevision" | "recordedAt">>;

/** Most records that are looked at, from the end of the log: older ones are not significant. */
const maxLooked = 16_384;

/** The tenant's newest decision; undefined if it has none, or none among its last `maxLooked` records. */
async function newestDecision(
  archive: Pick<StoreArchive, "search">,
  tenantId: TenantId,
): Promise<NewestDecision | undefined> {
  let looked = 0;
  for await (const { policyRevision, recordedAt } of everyFound(archive, { tenantId, terms: [], newest: true })) {
    if (policyRevision !== undefined) return { policyRevision, recordedAt };
    if (++looked === maxLooked) break;
  }
  return undefined;
}

/** The same from the store of the settings, if there is one; or a text that describes the store's problem. */
async function lookUpNewestDecision(
  { load }: Pick<Context, "load">,
  tenantId: TenantId,
): Promise<NewestDecision | string | undefined> {
  const { store } = load("ledger");
  if (store.kind === "sqlite" && !existsSync(store.path)) return undefined;
  const looked = inStore(() => withArchive({ load }, ({ archive }) => newestDecision(archive, tenantId)));
  return looked.catch((error: Refusal) => error.message);
}

/** Warnings for readers of an answer of this revision. */
function revisionWarnings(
  revision: string,
  tenantId: TenantId,
  newest: NewestDecision | string | undefined,
): readonly string[] {
  if (newest === undefined) return [];
  if (typeof newest === "string") return [`whether this revision is in force is not known: ${newest}`];
  if (newest.policyRevision === revision) return [];
  return [
    `this revision is not in force: the newest decision of ${tenantId}, of ${newest.recordedAt}, ` +
      `was made under ${newest.policyRevision}`,
  ];
}

/** Whether a recorded decision is reproduced, and what the current policies decide. */
export const policyReplayCommand = command({
  name: "policy replay",
  says: "evaluate a recorded decision under its own policy revision and under the current one",
  arguments: { "[directory]": "policy directory to compare with (default: SVC_POLICY_DIR)" },
  options: {
    "--decision <id>": { says: "id of the decision", required: true },
    "--tenant <id>": oneTenantFlag,
  },
  async run(context) {
    const named = parseNames({ tenant: context.options.tenant }).tenantId;
    const decisionId = parseRecordId(context.options.decision);
    if (decisionId === undefined) throw new Refusal("--decision: is not a decision id");
    const { engine } = await compileDirectory(context.args[0], context, byCedar);
    return ofTenant(context, named, async (archive, tenantId) => {
      // Loaded here, so that other commands start faster.
      const { replayDecision } = await import("../../domain/replay.ts");
      return replayAnswer(orRefuse(await replayDecision(archive, tenantId, decisionId, engine, byCedar)));
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
