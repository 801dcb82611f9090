/** A recorded decision, and the engine to evaluate it with. */
import { parseRecordId, type RecordId, type TenantId } from "../../base/ids.ts";
import type { Irreproducible } from "../../domain/replay.ts";
import type { StoreArchive } from "../../ledger/ports/archive.ts";
import type { FoundRecord } from "../../ledger/ports/search.ts";
import type { CompiledEngine } from "../../policy/engine/bundle-engine.ts";
import type { EngineOptions } from "../../policy/engine/engine.ts";
import type { Context } from "../frame/command.ts";
import { type Answer, Refusal } from "../frame/output.ts";
import { inStore, logOf, parseNames, withArchive } from "../frame/store.ts";
import { compileDirectory } from "./directory.ts";
import { type NewestDecision, newestDecision } from "./in-force.ts";
import type { Question } from "./query.ts";

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
  not_a_decision: "the record is not of a decision",
  revision_missing: "the policy revision that decided was not kept",
  revision_refused: "the policy revision that decided does not compile any more",
};

export interface DecisionToExplain extends Question {
  /** Of the directory if one is given, else of the revision that decided. */
  readonly engine: CompiledEngine;
  readonly newest: NewestDecision | undefined;
}

/** Finds the decision in the store of the settings and passes it on. Throws a Refusal if that is not possible. */
export async function withRecordedDecision(
  directory: string | undefined,
  context: Context<RecordedOptions>,
  engineOptions: EngineOptions,
  use: (decision: DecisionToExplain) => Answer,
): Promise<Answer> {
  const { options } = context;
  const named = parseNames({ tenant: options.tenant }).tenantId;
  const problem = problemOf(options);
  if (problem !== undefined) throw new Refusal(problem);
  // Loaded here, so that other commands start faster.
  const { compileRecorded, findDecision } = await import("../../domain/replay.ts");
  const look = async (archive: StoreArchive): Promise<Answer> => {
    const tenantId = named ?? (await logOf(archive, undefined)).tenantId;
    const found = await findDecision(archive, tenantId, await decisionIdOf(archive, tenantId, options));
    if (typeof found === "string") throw irreproducibleBecause(found);
    const compiled =
      directory === undefined
        ? await compileRecorded(archive, found.record, engineOptions)
        : await compileDirectory(directory, context, engineOptions);
    if (typeof compiled === "string") throw irreproducibleBecause(compiled);
    const { engine } = compiled;
    try {
      return use({ ...found, engine, newest: await newestDecision(archive, tenantId) });
    } finally {
      engine.release();
    }
  };
  return inStore(() => withArchive(context, ({ archive }) => look(archive)));
}

/** The decision cannot be evaluated again. */
export function irreproducibleBecause(status: Irreproducible): Refusal {
  return new Refusal(irreproducible[status], { value: { status } });
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
  throw new Refusal(["--request-id: several decisions have this id; name one with --decision", ...found.map(lineOf)]);
}

/** Decisions of the request; clients choose the ids, so several requests may have the same. */
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

/** Most decisions that are listed. */
const maxNamed = 20;

function lineOf({ recordId, recordedAt }: FoundRecord): string {
  return `${recordId} of ${recordedAt}`;
}
