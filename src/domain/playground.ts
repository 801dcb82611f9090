/** Tries drafts of policies in a thread, beside the policies in force and recorded decisions. Writes nothing. */
import { ServiceError } from "../base/errors.ts";
import type { RecordId, TenantId } from "../base/ids.ts";
import { inThread } from "../base/thread-call.ts";
import { type Timers, withTimeLimit } from "../base/timers.ts";
import type { RecordArchive } from "../ledger/ports/ledger.ts";
import type { StoredRecord } from "../ledger/ports/record.ts";
import type { FoundRecord, SearchPage, SearchQuery } from "../ledger/ports/search.ts";
import { everyFound } from "../ledger/search/search-query.ts";
import type { RecordedSample, Trial } from "./playground-worker.ts";
import { findDecision } from "./replay.ts";

/** Most recorded decisions of one trial, the newest. */
const maxRecorded = 1_000;
const timeoutMs = 30_000;
const heapMib = 512;

/** Recorded decisions of a tenant, from a time on. */
export interface RecordedSince {
  readonly tenantId: TenantId;
  readonly fromMs: number;
}

export interface TrialSource {
  search(query: Omit<SearchQuery, "tenantId">): Promise<SearchPage | undefined>;
  readonly find: RecordArchive["find"];
}

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
  const records = new Map<string, StoredRecord | "unknown" | "erased">();
  const noting = {
    async search({ tenantId: _, ...query }: SearchQuery) {
      signal.throwIfAborted();
      const page = await source.search(query);
      if (page === undefined) throw new ServiceError("no_route", "there is no such log");
      return page;
    },
    async find(tenant: TenantId, id: RecordId) {
      const record = await source.find(tenant, id);
      records.set(id, record);
      return record;
    },
  };
  const found: FoundRecord[] = [];
  for await (const one of everyFound(noting, { tenantId, terms: [], fromMs, newest: true })) {
    if (one.kind === "decision") found.push(one);
    if (found.length > maxRecorded) break;
  }
  const asked = found.slice(0, maxRecorded);
  for (const { recordId, erased } of asked) {
    signal.throwIfAborted();
    if (!erased) await findDecision(noting, tenantId, recordId);
  }
  return { tenantId, found: asked, records, isCut: found.length > asked.length };
}
