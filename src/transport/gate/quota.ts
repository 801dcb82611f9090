/** The last link of the gate: quotas of tenants, and the headers that report them. */
import type { InboundRequest } from "../../base/inbound-request.ts";
import type { QuotaName } from "../../base/quotas.ts";
import type { QuotaHold, QuotaState, Quotas } from "../../domain/quotas.ts";
import { withinDeadline } from "../../http/deadline.ts";
import type { Call } from "../calls/call.ts";
import type { GateLink } from "../calls/exchange.ts";

export interface QuotaUse {
  /** Whether calls of the method leave a record, and so need the store. */
  readonly isRecorded: boolean;
  /** Whether bodies count as artifacts. */
  readonly isArtifact: boolean;
}

/** Refuses calls beyond their tenant's quotas, before the body is read. */
export function keepWithinQuotas(quotas: Pick<Quotas, "take">, useOf: (rpc: string) => QuotaUse): GateLink {
  return ({ call, rpc, signal }) => {
    if (call.caller === undefined) return;
    const { tenantId } = call.caller;
    const { isRecorded, isArtifact } = useOf(rpc);
    const amounts = {
      requests: 1,
      records: isRecorded ? 1 : 0,
      artifact_bytes: isArtifact ? Math.max(1, announcedBytes(call.inbound)) : 0,
    };
    const taken = quotas.take({ tenantId, amounts, isStoreless: !isRecorded, signal });
    if (!(taken instanceof Promise)) return note(call, "quotas", taken);
    const noted = taken.then((hold) => note(call, "quotas", hold));
    // If the call ends first, nothing is taken for it.
    noted.catch(() => {});
    return withinDeadline(() => noted, signal);
  };
}

function note(call: Call, name: "quotas" | "itemQuotas", hold: QuotaHold | undefined): void {
  if (hold === undefined) return;
  call[name] = hold;
  call.announced = quotaHeaders(hold.states);
  if (hold.refusal !== undefined) throw hold.refusal;
}

/**
 * Takes the quota of a bulk call's items, besides that of the call itself, once they are counted.
 *
 * @throws ServiceError as `keepWithinQuotas`; `rate_limited` too if the items exceed the limit of a period
 */
export async function takeForItems(
  quotas: Pick<Quotas, "take">,
  isRecorded: boolean,
  call: Call,
  signal: AbortSignal,
): Promise<void> {
  const { items } = call;
  if (items === undefined || items.count < 2) return;
  note(call, "itemQuotas", await takeMany(quotas, items.count - 1, isRecorded, call, signal));
}

/** Called once with the number of items that were recorded, and of those that were asked for; default: all. */
export type SettleItems = (recorded: number, asked?: number) => void;

/**
 * Takes the quota for recorded items of a call or a stream, besides that of the call itself. Resolves with a function
 * that gives back what was not recorded or not asked for.
 *
 * @param artifactBytes of the artifacts that the items have
 * @throws ServiceError as `takeForItems`
 */
export async function takeForBatch(
  quotas: Pick<Quotas, "take">,
  call: Call,
  count: number,
  signal: AbortSignal,
  artifactBytes = 0,
): Promise<SettleItems> {
  const hold = await takeMany(quotas, count, true, call, signal, artifactBytes);
  if (hold !== undefined) call.announced = quotaHeaders(hold.states);
  if (hold?.refusal !== undefined) throw hold.refusal;
  return (records, requests = count) => hold?.settle({ requests, records });
}

async function takeMany(
  quotas: Pick<Quotas, "take">,
  count: number,
  isRecorded: boolean,
  { caller, recordedItems = 1 }: Call,
  signal: AbortSignal,
  artifactBytes = 0,
): Promise<QuotaHold | undefined> {
  if (caller === undefined) return undefined;
  const amounts = { requests: count, records: isRecorded ? count : 0, artifact_bytes: artifactBytes };
  // A stream has no record but those of its items.
  const beside = { requests: 1, records: recordedItems, artifact_bytes: 0 };
  const request = { tenantId: caller.tenantId, amounts, isStoreless: false, beside, signal };
  return withinDeadline(async () => quotas.take(request), signal);
}

/** Length of the body, if the headers state it. */
function announcedBytes(inbound: InboundRequest): number {
  const [value = ""] = inbound.headerValues("content-length");
  return /^\d{1,15}$/.test(value) ? Number(value) : 0;
}

/** Gives back what the call was granted and has not used. */
export function settleQuotas(call: Call): void {
  const { quotas, itemQuotas, refusal, bodyBytes = 0, recordedItems } = call;
  // A record may have been stored although the caller left early or the store did not answer.
  const mayBeRecorded = refusal === undefined || unknownOutcomes.has(refusal.reason);
  const records = mayBeRecorded ? (recordedItems ?? 1) : 0;
  quotas?.settle({ records: Math.min(1, records), artifact_bytes: bodyBytes });
  itemQuotas?.settle({ records: Math.max(0, records - 1), artifact_bytes: 0 });
}

const unknownOutcomes: ReadonlySet<string> = new Set([
  "canceled",
  "deadline_exceeded",
  "store_unavailable",
  "internal",
]);

const items: Readonly<Record<QuotaName, { readonly name: string; readonly unit: string }>> = {
  requests: { name: "requests", unit: "" },
  records: { name: "records", unit: "" },
  artifact_bytes: { name: "artifact-bytes", unit: ';qu="content-bytes"' },
};

/**
 * `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-10, sections 3 and 4), as headers and as
 * metadata of gRPC. What is left is an estimate of this process: other replicas may have used some, or give some back.
 */
export function quotaHeaders(states: readonly QuotaState[]): Readonly<Record<string, string>> {
  if (states.length === 0) return {};
  const policies = states.map(({ name, quota: { limit, periodSeconds } }) => {
    const { name: item, unit } = items[name];
    return `"${item}";q=${limit};w=${periodSeconds}${unit}`;
  });
  const limits = states.map(
    ({ name, remaining, resetSeconds }) => `"${items[name].name}";r=${remaining};t=${resetSeconds}`,
  );
  return { "ratelimit-policy": policies.join(", "), ratelimit: limits.join(", ") };
}
