import { expect, test } from "vitest";
import { newRecordId, type RecordId } from "../../../src/base/ids.ts";
import type { JsonObject } from "../../../src/base/json.ts";
import { type CitationResult, type Citing, cite } from "../../../src/domain/citation.ts";
import { newRecord } from "../../../src/domain/record.ts";
import type { RecordedRoute } from "../../../src/domain/routes.ts";
import { createWorld, described, identity, startMs } from "./world.ts";

interface Decision {
  readonly route?: RecordedRoute;
  readonly operation?: string;
  readonly allow?: boolean;
  readonly profile?: string;
  readonly resource?: JsonObject;
  readonly onBehalfOf?: JsonObject;
  readonly tenant?: string;
  readonly principal?: string;
  readonly kind?: "decision" | "registration" | "evidence";
  readonly ageMs?: number;
}

interface Case {
  readonly name: string;
  readonly result: CitationResult;
  readonly decision?: Decision;
  readonly citing?: Partial<Citing>;
}

const day = 86_400_000;

const cases: readonly Case[] = [
  { name: "the same in everything", result: "matched" },
  { name: "exactly as old as may be", result: "matched", decision: { ageMs: day } },
  { name: "older", result: "expired", decision: { ageMs: day + 1 } },
  { name: "recorded by a clock that is ahead", result: "matched", decision: { ageMs: -60_000 } },
  { name: "a denial", result: "denied", decision: { allow: false } },
  { name: "an old denial", result: "denied", decision: { allow: false, ageMs: 2 * day } },
  { name: "another principal's", result: "mismatch", decision: { principal: "other" } },
  { name: "another principal's denial", result: "mismatch", decision: { principal: "other", allow: false } },
  { name: "another tenant's", result: "unknown", decision: { tenant: "tenant-b" } },
  { name: "an event", result: "unknown", decision: { kind: "evidence" } },
  { name: "a registration", result: "unknown", decision: { kind: "registration" } },
  { name: "another resource id", result: "mismatch", decision: { resource: { kind: "customer-record", id: "x" } } },
  { name: "no resource id", result: "mismatch", decision: { resource: { kind: "customer-record" } } },
  { name: "another resource kind", result: "mismatch", decision: { resource: { kind: "x", id: "cust-8841" } } },
  { name: "another operation", result: "mismatch", decision: { operation: "access" } },
  { name: "another profile", result: "mismatch", decision: { profile: "envelope" } },
  {
    name: "no profile named by the event",
    result: "matched",
    decision: { profile: "envelope" },
    citing: { operation: "protect" },
  },
  {
    name: "no profile told by policy-resolve",
    result: "matched",
    decision: { route: "policy-resolve", profile: "envelope" },
  },
  { name: "wrap for protect", result: "matched", decision: { route: "key-access-plan", operation: "wrap" } },
  { name: "unwrap for protect", result: "mismatch", decision: { route: "key-access-plan", operation: "unwrap" } },
  {
    name: "unwrap for access",
    result: "matched",
    decision: { route: "key-access-plan", operation: "unwrap" },
    citing: { operation: "access", artifact_profile: "tdf" },
  },
  {
    name: "key rewrap for rewrap",
    result: "matched",
    decision: { route: "key-access-plan", operation: "rewrap" },
    citing: { operation: "rewrap", artifact_profile: "tdf" },
  },
  {
    name: "an enforcement point's question about itself, whatever profile was decided",
    result: "matched",
    decision: { route: "evaluation", operation: "wrap", profile: "envelope" },
  },
  {
    name: "an enforcement point's rewrap of a key",
    result: "matched",
    decision: { route: "evaluation", operation: "rewrapKey" },
    citing: { operation: "rewrap" },
  },
  {
    name: "what an enforcement point asked for somebody else",
    result: "mismatch",
    decision: { route: "evaluation", onBehalfOf: { type: "user", id: "alice" } },
  },
  {
    name: "what was denied to somebody else",
    result: "mismatch",
    decision: { route: "evaluation", allow: false, onBehalfOf: { type: "user", id: "alice" } },
    citing: { operation: "deny" },
  },
  { name: "deny of a permit", result: "mismatch", citing: { operation: "deny" } },
  { name: "deny of a denial", result: "matched", decision: { allow: false }, citing: { operation: "deny" } },
  {
    name: "deny of a denied unwrap",
    result: "matched",
    decision: { allow: false, route: "key-access-plan", operation: "unwrap" },
    citing: { operation: "deny" },
  },
  {
    name: "deny of an old denial",
    result: "expired",
    decision: { allow: false, ageMs: 2 * day },
    citing: { operation: "deny" },
  },
];

test.each(cases)("$name: $result", async ({ result, decision = {}, citing }) => {
  const { dependencies, ledger, time } = createWorld({ decisionMaxAgeSeconds: 86_400 });
  const decisionId = newRecordId(dependencies.clock, dependencies.random);
  time.nowMs = startMs - (decision.ageMs ?? 0);
  await ledger.append(recordOf(decision, decisionId));
  time.nowMs = startMs;
  const citation = await cite(dependencies, identity().caller, {
    decision_id: decisionId,
    resource: described.resource,
    ...(citing ?? { operation: "protect", artifact_profile: "tdf" }),
    operation: citing?.operation ?? "protect",
  });
  expect(citation.result).toBe(result);
  expect(citation.evidenceExpected).toEqual(result === "matched" ? ["access"] : undefined);
});

test("a decision's age is that of its id if its log's time was ahead", async () => {
  const { dependencies, ledger, time } = createWorld({ decisionMaxAgeSeconds: 3_600 });
  const decisionId = newRecordId(dependencies.clock, dependencies.random);
  time.nowMs = startMs + day;
  await ledger.append(recordOf({}, decisionId));
  const citing: Citing = { decision_id: decisionId, resource: described.resource, operation: "protect" };
  const resultAt = async (nowMs: number) => {
    time.nowMs = nowMs;
    return (await cite(dependencies, identity().caller, citing)).result;
  };
  expect(await resultAt(startMs + 3_600_000)).toBe("matched");
  expect(await resultAt(startMs + 3_600_001)).toBe("expired");
});

test.each(["not-an-id", "", "018F0000-0000-7000-8000-000000000000", "018f0000-0000-4000-8000-000000000000"])(
  "%j is unknown, and the store is not read",
  async (id) => {
    const { dependencies, ledger } = createWorld();
    const citing: Citing = { decision_id: id, resource: described.resource, operation: "protect" };
    expect(await cite(dependencies, identity().caller, citing)).toEqual({ result: "unknown" });
    expect(ledger.finds).toBe(0);
  },
);

test("an absent citation is none; an erased decision is erased", async () => {
  const { dependencies, ledger } = createWorld();
  const { caller } = identity();
  const citing: Citing = { resource: described.resource, operation: "protect" };
  expect(await cite(dependencies, caller, citing)).toEqual({ result: "none" });
  const id = newRecordId(dependencies.clock, dependencies.random);
  ledger.stored.set(`${caller.tenantId} ${id}`, "erased");
  expect(await cite(dependencies, caller, { ...citing, decision_id: id })).toEqual({ result: "erased" });
});

function recordOf(decision: Decision, id: RecordId) {
  const { route = "protection-plan", operation = "protect", resource = described.resource } = decision;
  const subject = decision.onBehalfOf && { on_behalf_of: decision.onBehalfOf };
  const request = { ...described, operation, resource, ...subject };
  const outcome = {
    allow: decision.allow ?? true,
    guidance: { artifact_profile: decision.profile ?? "tdf", evidence_expected: ["access"] },
  };
  const call = identity(decision.tenant, decision.principal);
  return newRecord(decision.kind ?? "decision", id, call, route, request, outcome);
}
