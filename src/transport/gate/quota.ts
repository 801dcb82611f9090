/** The last link of the gate: quotas of tenants, and the headers that report them. */
import type { Reason, ServiceError } from "../../base/errors.ts";
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
    const taken = quotas.take({ tenantId, amounts, signal });
    if (!(taken instanceof Promise)) return note(call, taken);
    const noted = taken.then((hold) => note(call, hold));
    // If the call ends first, nothing is taken for it.
    noted.catch(() => {});
    return withinDeadline(() => noted, signal);
  };
}

function note(call: Call, hold: QuotaHold | undefined): void {
  announce(call, hold);
  call.quotas = hold;
}

function announce(call: Call, hold: QuotaHold | undefined): void {
  if (hold === undefined) return;
  call.announced = quotaHeaders(hold.states);
  if (hold.refusal !== undefined) throw hold.refusal;
}

/** Called once with the number of items that were recorded, and of those that were asked for; default: all. */
export type SettleItems = (recorded: number, asked?: number) => void;

/**
 * Takes the quota for recorded items of a call or a stream, besides that of the call itself. Resolves with a function
 * that gives back what was not recorded or not asked for.
 *
 * @param artifactBytes of the artifacts that the items have
 * @throws ServiceError as `keepWithinQuotas`; `rate_limited` too if the items exceed the limit of a period
 */
export async function takeForItems(
  quotas: Pick<Quotas, "take">,
  call: Call,
  count: number,
  signal: AbortSignal,
  artifactBytes = 0,
): Promise<SettleItems> {
  const { caller, recordedItems = 1 } = call;
  if (caller === undefined) return () => {};
  const amounts = { requests: count, records: count, artifact_bytes: artifactBytes };
  // A stream has no record but those of its items.
  const beside = { requests: 1, records: recordedItems, artifact_bytes: 0 };
  const request = { tenantId: caller.tenantId, amounts, beside, signal };
  const hold = await withinDeadline(async () => quotas.take(request), signal);
  announce(call, hold);
  return (records, requests = count) => hold?.settle({ requests, records });
}

/** Length of the body, if the headers state it. */
function announcedBytes(inbound: InboundRequest): number {
  const [value = ""] = inbound.headerValues("content-length");
  return /^\d{1,15}$/.test(value) ? Number(value) : 0;
}

/** Gives back what the call was granted and has not used. */
export function settleQuotas(call: Call): void {
  const { quotas, refusal, bodyBytes = 0, recordedItems = 1 } = call;
  const records = refusal === undefined || mayBeRecorded(refusal) ? recordedItems : 0;
  quotas?.settle({ records: Math.min(1, records), artifact_bytes: bodyBytes });
}

/** Whether a record may have been stored although the caller left early or the store did not answer. */
export function mayBeRecorded({ reason }: ServiceError): boolean {
  return unknownOutcomes.has(reason);
}

const unknownOutcomes: ReadonlySet<Reason> = new Set<Reason>([
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
