/**
 * Handles many questions, events or registrations in one call. Each is handled as on its single route, with a ledger
 * that collects the records for one durable commit.
 */
import { type Reason, ServiceError } from "../base/errors.ts";
import type { RecordId, TenantId } from "../base/ids.ts";
import type { RecordGroup, ShownOfRecord } from "../ledger/ports/ledger.ts";
import type { RecordingLedger } from "./deployment.ts";
import type { CallIdentity } from "./record.ts";

/** Result of one item; undefined if it was not evaluated. */
export type ItemResult<Answer> = { readonly answer: Answer } | { readonly refusal: ServiceError } | undefined;

export interface BulkCall<Answer> {
  readonly count: number;
  /** Handles one item with the given ledger. Rejects with its refusal. */
  readonly handle: (index: number, identity: CallIdentity, ledger: RecordingLedger) => Promise<Answer>;
  /** Absent if all items are handled. */
  readonly stopsAfter?: StopRule;
  /** What receipts of the answers contain. Default: all. */
  readonly shown?: ShownOfRecord;
  /** Yields to other calls, until the promise resolves if one is given. Rejects if this call may not continue. */
  readonly pause: (until?: Promise<void>) => Promise<void>;
}

/** Whether to stop after this item. Called once for each item that is not refused. */
export type StopRule = (isAllowed: boolean) => boolean;

export type BulkLedger = RecordingLedger & { group(tenantId: TenantId, shown?: ShownOfRecord): RecordGroup };

/** Transient reasons. They refuse the whole call, so that no item looks refused for good. */
const passes: ReadonlySet<Reason> = new Set<Reason>([
  ...(["store_unavailable", "policy_unavailable", "issuer_unavailable", "overloaded"] as const),
  ...(["rate_limited", "request_timeout", "deadline_exceeded", "canceled"] as const),
]);

/** Items between two pauses, and milliseconds after which a pause comes earlier. */
const itemsATurn = 16;
const turnMs = 2;

/**
 * Handles the items in order. Resolves when everything answered is durable.
 *
 * @throws ServiceError `store_unavailable`, `overloaded` and other transient reasons, for an item or for all, or the
 *   reason of the call's signal: then no item is answered
 */
export async function handleAll<Answer>(
  ledger: BulkLedger,
  call: CallIdentity,
  bulk: BulkCall<Answer>,
): Promise<readonly ItemResult<Answer>[]> {
  const group = ledger.group(call.caller.tenantId, bulk.shown);
  try {
    const room = group.enter(bulk.count);
    if (room !== undefined) await bulk.pause(room);
    return await handleTogether(ledger, group, call, bulk);
  } finally {
    group.leave();
  }
}

async function handleTogether<Answer>(
  ledger: BulkLedger,
  group: RecordGroup,
  call: CallIdentity,
  { count, handle, stopsAfter, pause }: BulkCall<Answer>,
): Promise<readonly ItemResult<Answer>[]> {
  call.signal?.throwIfAborted();
  const { span: _, onDecided: __, ...identity } = call;
  const { find, registrations } = lookupsIn(ledger);
  const results: Promise<ItemResult<Answer>>[] = [];
  /** Refusal of an item for a transient reason. */
  let passing: ServiceError | undefined;
  let turn: Promise<boolean>[] = [];
  let turnEndsAtMs = performance.now() + turnMs;
  for (let i = 0; i < count; i++) {
    const entry = Promise.withResolvers<boolean>();
    const own: RecordingLedger = {
      find,
      registrations,
      async append(record) {
        const appended = group.add(i, record);
        entry.resolve(record.outcome.allow === true);
        return appended;
      },
    };
    results.push(
      handle(i, identity, own).then(
        (answer) => ({ answer }),
        (thrown: unknown) => {
          const refusal = refusalOf(thrown);
          if (passes.has(refusal.reason)) passing ??= refusal;
          entry.resolve(false);
          return { refusal };
        },
      ),
    );
    turn.push(entry.promise);
    if (stopsAfter?.(await entry.promise)) break;
    if (turn.length < itemsATurn && performance.now() < turnEndsAtMs) continue;
    // Lookups of one turn go to the store together.
    await Promise.all(turn);
    if (passing !== undefined) throw passing;
    await pause();
    call.signal?.throwIfAborted();
    turn = [];
    turnEndsAtMs = performance.now() + turnMs;
  }
  await Promise.all(turn);
  call.signal?.throwIfAborted();
  if (passing !== undefined) throw passing;
  await group.commit(call.span);
  const known = await Promise.all(results);
  return Array.from({ length: count }, (_, i) => known[i]);
}

function refusalOf(thrown: unknown): ServiceError {
  return thrown instanceof ServiceError ? thrown : new ServiceError("internal", "internal error", { cause: thrown });
}

type LookupLedger = Pick<RecordingLedger, "find" | "registrations">;

/** Lookups of one call: those of one turn are one query to the store, and results are reused. */
function lookupsIn(ledger: LookupLedger): LookupLedger {
  const found = new Map<RecordId, ReturnType<LookupLedger["find"]>>();
  let asked: { readonly list: string[]; readonly answer: ReturnType<LookupLedger["registrations"]> } | undefined;
  const ask = (tenantId: TenantId) => {
    const list: string[] = [];
    // After all items of this turn have asked.
    const answer = Promise.resolve().then(() => {
      asked = undefined;
      return ledger.registrations(tenantId, list);
    });
    return { list, answer };
  };
  return {
    find(tenantId, recordId) {
      const record = found.get(recordId) ?? ledger.find(tenantId, recordId);
      found.set(recordId, record);
      return record;
    },
    async registrations(tenantId, names) {
      asked ??= ask(tenantId);
      const { list, answer } = asked;
      const first = list.push(...names) - names.length;
      try {
        return (await answer).slice(first, first + names.length);
      } catch {
        // A damaged record affects only the item that reads it.
        return ledger.registrations(tenantId, names);
      }
    },
  };
}
