/** Tries drafts of policies in a thread, beside the policies in force and recorded decisions. Writes nothing. */
import { ServiceError } from "../base/errors.ts";
import type { TenantId } from "../base/ids.ts";
import { inThread } from "../base/thread-call.ts";
import { type Timers, withTimeLimit } from "../base/timers.ts";
import type { StoreArchive } from "../ledger/ports/archive.ts";
import type { SearchQuery } from "../ledger/ports/search.ts";
import { everyFound } from "../ledger/search/search-query.ts";
import type { RecordedSample, Trial } from "./playground-worker.ts";
import { type FoundDecision, findDecision } from "./replay.ts";

/** Most recorded decisions of one trial, the newest. */
const maxRecorded = 1_000;
const timeoutMs = 30_000;
const heapMib = 512;

/** Recorded decisions of a tenant, from a time on. */
export interface RecordedSince {
  readonly tenantId: TenantId;
  readonly fromMs: number;
}

export type TrialSource = Pick<StoreArchive, "search" | "find">;

/**
 * Resolves with the answer of `tryDraft`, and `recorded` if decisions are asked again. Rejects with `invalid_request` if
 * the draft takes longer than 30 seconds or more than 512 MiB, or with the reason of the signal.
 */
export async function runTrial(
  trial: Omit<Trial, "recorded">,
  since: RecordedSince | undefined,
  source: TrialSource,
  timers: Timers,
  signal: AbortSignal,
): Promise<object> {
  const late = () => tooLong(`the draft takes longer than ${timeoutMs / 1_000} s`);
  const work = async (limit: AbortSignal) => {
    const limits = { signal: AbortSignal.any([signal, limit]), heapMib };
    const recorded = since && (await sampleOf(source, since, limits.signal));
    const given = { ...trial, recorded } satisfies Trial;
    return inThread(new URL("./playground-worker.ts", import.meta.url), given, (answer: object) => answer, limits);
  };
  try {
    return await withTimeLimit(timers, timeoutMs, late, work);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ERR_WORKER_OUT_OF_MEMORY") throw error;
    throw tooLong(`the draft takes more than ${heapMib} MiB`);
  }
}

function tooLong(message: string): ServiceError {
  return new ServiceError("invalid_request", `${message}: try it with the command policy diff`);
}

async function sampleOf(
  source: TrialSource,
  { tenantId, fromMs }: RecordedSince,
  signal: AbortSignal,
): Promise<RecordedSample> {
  const archive = {
    async search(query: SearchQuery) {
      signal.throwIfAborted();
      return source.search(query);
    },
  };
  const decisions: FoundDecision[] = [];
  for await (const one of everyFound(archive, { tenantId, terms: [], fromMs, newest: true })) {
    if (one.kind !== "decision") continue;
    if (decisions.length === maxRecorded) return { tenantId, decisions, isCut: true };
    signal.throwIfAborted();
    decisions.push(one.erased ? "erased" : await findDecision(source, tenantId, one.recordId));
  }
  return { tenantId, decisions, isCut: false };
}
