/** A store with many records of a month, as a service would have written them. */
import { createHash } from "node:crypto";
import { parsePrincipalId } from "../../src/base/ids.ts";
import type { JsonObject } from "../../src/base/json.ts";
import type { NewRecord } from "../../src/ledger/ports/record.ts";
import { openSqliteStores } from "../../src/stores/sqlite/open-ledger.ts";
import { recordMaker, seededRandom, storeIn, tenant } from "../contract/ledger-records.ts";

export interface ManyRecords {
  /** Folder of the store; a gateway may be started on it. */
  readonly directory: string;
  readonly tenantId: string;
  readonly records: number;
  /** Text that stands in every member that callers, policies and operators write. */
  readonly markup: string;
  readonly nowMs: number;
}

const periodMs = 30 * 86_400_000;
/** Records under way at once. */
const inFlight = 256;

/**
 * Decisions, registrations and events of several principals. One decision in twelve is denied, one in 97 breaks glass,
 * one access in nine has no evidence, and the policy revision changes twice. Resolves with ids of denials.
 */
export async function writeManyRecords(options: ManyRecords): Promise<readonly string[]> {
  const { directory, tenantId, records, markup, nowMs } = options;
  const clock = { nowMs: nowMs - periodMs, now: () => clock.nowMs };
  const random = seededRandom("many");
  const ledger = (await openSqliteStores({ ...storeIn(directory), originPrefix: "localhost/dev", clock, random }))
    .ledger;
  const makeRecord = recordMaker(clock, random);
  const principals = ["payroll-service", "reports", "archive", "partner-gateway", markup.slice(0, 40)];
  const denials: string[] = [];
  /** What was decided and not yet evidenced. */
  const open: { readonly id: string; readonly request: JsonObject; readonly caller: NewRecord["caller"] }[] = [];
  const recordAt = (number: number): NewRecord => {
    clock.nowMs = nowMs - periodMs + Math.floor(((number + 1) * (periodMs - 60_000)) / records);
    const principal = principals[(number * 7) % principals.length] ?? "";
    const caller = { principal_id: parsePrincipalId(principal), subject: principal, auth_source: "bearer_token" };
    const cited = number % 2 === 1 ? open.shift() : undefined;
    if (cited !== undefined) {
      const request = { ...cited.request, decision_id: cited.id, event_type: "access", outcome: "completed" };
      const outcome = { accepted: true, citation: "matched" };
      return makeRecord(tenant(tenantId), { kind: "evidence", caller: cited.caller, request, outcome });
    }
    const isHostile = number % 500 === 0;
    const resource = { kind: "customer-record", id: isHostile ? markup : `cust-${8_000 + (number % 300)}` };
    const digest = `sha256:${createHash("sha256")
      .update(String(number % 300))
      .digest("hex")}`;
    const allow = number % 12 !== 0;
    const request = {
      operation: number % 3 === 0 ? "protect" : "access",
      workload: { application: isHostile ? markup : "payroll" },
      ...{ resource, purpose: isHostile ? markup : "quarterly-audit", labels: [isHostile ? markup : "confidential"] },
      ...{ attributes: {}, artifact_digest: digest },
    };
    const revision = `sha256:${String(Math.floor((number * 3) / records)).repeat(64)}`;
    const reasons = isHostile
      ? [markup]
      : [allow ? "tenant/readers" : `tenant/${["eu-residency", "owner-only"][number % 24 === 0 ? 0 : 1]}`];
    const record = makeRecord(tenant(tenantId), {
      caller: caller as NewRecord["caller"],
      request,
      outcome: { allow, policy_revision: revision, reasons, ...(number % 97 === 0 && { alerts: ["break-glass"] }) },
      policyRevision: revision,
    });
    if (!allow) denials.push(record.recordId);
    else if (number % 9 !== 0) open.push({ id: record.recordId, request, caller: record.caller });
    return record;
  };
  let next = 0;
  await Promise.all(
    Array.from({ length: inFlight }, async () => {
      while (next < records) await ledger.append(recordAt(next++));
    }),
  );
  await ledger.close();
  return denials;
}
