/** A recorded decision that a command is about, with the engine to ask about it. */
import { parseRecordId, parseTenantId, type RecordId, type TenantId } from "../../base/ids.ts";
import type { Irreproducible } from "../../domain/replay.ts";
import type { StoreArchive } from "../../ledger/ports/archive.ts";
import type { FoundRecord } from "../../ledger/ports/search.ts";
import type { CompiledEngine } from "../../policy/engine/bundle-engine.ts";
import type { EngineOptions } from "../../policy/engine/engine.ts";
import { storeBackend } from "../../stores/backends.ts";
import { type CommonOptions, loadOrReport, storeProblem } from "../options.ts";
import type { Output } from "../output.ts";
import { compileOrReport } from "./directory.ts";
import { type NewestDecision, newestDecision } from "./in-force.ts";
import type { Question } from "./query.ts";

export interface RecordedOptions extends CommonOptions {
  readonly tenant?: string;
  readonly decision?: string;
  readonly requestId?: string;
  /** Options that describe another question. */
  readonly action?: string;
  readonly request?: string;
}

/** Why a decision cannot be evaluated again, in words. */
export const irreproducible: Readonly<Record<Irreproducible, string>> = {
  unknown: "the tenant has no record with this id",
  erased: "erased",
  not_a_decision: "the record is not of a decision",
  revision_missing: "the policy revision that decided was not kept",
  revision_refused: "the policy revision that decided does not compile any more",
};

export interface DecisionToExplain extends Question {
  /** Of the directory where one is given, else of the revision that decided. */
  readonly engine: CompiledEngine;
  readonly newest: NewestDecision | undefined;
}

/** Finds the decision in the store of the settings and hands it over; where that cannot be, reports why. */
export async function withRecordedDecision(
  directory: string | undefined,
  options: RecordedOptions,
  output: Output,
  engineOptions: EngineOptions,
  use: (decision: DecisionToExplain) => void,
): Promise<void> {
  const tenantId = options.tenant === undefined ? undefined : parseTenantId(options.tenant);
  const problem = problemOf(options, tenantId);
  if (tenantId === undefined || problem !== undefined) return output.fail([problem ?? "--tenant: is no tenant id"]);
  const settings = loadOrReport("policy_replay", options, output);
  if (settings === undefined) return;
  // Loaded here, so that no other command pays for it.
  const { compileRecorded, findDecision } = await import("../../domain/replay.ts");
  let archive: StoreArchive | undefined;
  let engine: CompiledEngine | undefined;
  try {
    archive = await (await storeBackend(settings)).openArchive();
    const decisionId = await decisionIdOrReport(archive, tenantId, options, output);
    if (decisionId === undefined) return;
    const found = await findDecision(archive, tenantId, decisionId);
    if (typeof found === "string") return output.fail([irreproducible[found]], { status: found });
    const compiled =
      directory === undefined
        ? await compileRecorded(archive, found.record, engineOptions)
        : await compileOrReport(directory, options, output, engineOptions);
    if (compiled === undefined) return;
    if (typeof compiled === "string") return output.fail([irreproducible[compiled]], { status: compiled });
    engine = compiled.engine;
    use({ ...found, engine, newest: await newestDecision(archive, tenantId) });
  } catch (error) {
    output.fail([storeProblem(error)]);
  } finally {
    engine?.release();
    await archive?.close();
  }
}

function problemOf(options: RecordedOptions, tenantId: TenantId | undefined): string | undefined {
  const { decision, requestId, action, request } = options;
  if (tenantId === undefined) return options.tenant === undefined ? "--tenant: is required" : undefined;
  if (decision !== undefined && requestId !== undefined) return "--decision and --request-id exclude each other";
  if (action !== undefined || request !== undefined) {
    return "--decision and --request-id take the place of --request, --action and what describes the request";
  }
  return decision !== undefined && parseRecordId(decision) === undefined ? "--decision: is no decision id" : undefined;
}

async function decisionIdOrReport(
  archive: Pick<StoreArchive, "search" | "logs">,
  tenantId: TenantId,
  { decision, requestId = "" }: RecordedOptions,
  output: Output,
): Promise<RecordId | undefined> {
  if (decision !== undefined) return parseRecordId(decision);
  const found = await decisionsOf(archive, tenantId, requestId);
  if (found.length === 1) return found[0]?.recordId;
  output.fail(
    found.length === 0
      ? ["--request-id: the tenant has no decision of a request with this id"]
      : ["--request-id: several decisions have this id; name one with --decision", ...found.map(lineOf)],
  );
  return undefined;
}

/** Decisions of the request; clients choose the ids, so that several requests may have one. */
async function decisionsOf(
  archive: Pick<StoreArchive, "search">,
  tenantId: TenantId,
  requestId: string,
): Promise<readonly FoundRecord[]> {
  const decisions: FoundRecord[] = [];
  let after: number | undefined;
  do {
    const terms = [{ field: "request_id", value: requestId } as const];
    const page = await archive.search({ tenantId, terms, limit: 100, ...(after !== undefined && { after }) });
    decisions.push(...page.found.filter(({ kind, erased }) => kind === "decision" && !erased));
    after = page.next;
  } while (after !== undefined && decisions.length < maxNamed);
  return decisions;
}

/** Decisions that are named where there are several. */
const maxNamed = 20;

function lineOf({ recordId, recordedAt }: FoundRecord): string {
  return `${recordId} of ${recordedAt}`;
}
