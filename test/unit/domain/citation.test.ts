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

const day = 86_400_000;

test.each<[string, CitationResult, Decision?, Partial<Citing>?]>([
  ["the same in everything", "matched"],
  ["exactly as old as may be", "matched", { ageMs: day }],
  ["older", "expired", { ageMs: day + 1 }],
  ["recorded by a clock that is ahead", "matched", { ageMs: -60_000 }],
  ["a denial", "denied", { allow: false }],
  ["an old denial", "denied", { allow: false, ageMs: 2 * day }],
  ["another principal's", "mismatch", { principal: "other" }],
  ["another principal's denial", "mismatch", { principal: "other", allow: false }],
  ["another tenant's", "unknown", { tenant: "tenant-b" }],
  ["an event", "unknown", { kind: "evidence" }],
  ["a registration", "unknown", { kind: "registration" }],
  ["another resource id", "mismatch", { resource: { kind: "customer-record", id: "x" } }],
  ["no resource id", "mismatch", { resource: { kind: "customer-record" } }],
  ["another resource kind", "mismatch", { resource: { kind: "x", id: "cust-8841" } }],
  ["another operation", "mismatch", { operation: "access" }],
  ["another profile", "mismatch", { profile: "envelope" }],
  ["no profile named by the event", "matched", { profile: "envelope" }, { operation: "protect" }],
  ["no profile told by policy-resolve", "matched", { route: "policy-resolve", profile: "envelope" }],
  ["wrap for protect", "matched", { route: "key-access-plan", operation: "wrap" }],
  ["unwrap for protect", "mismatch", { route: "key-access-plan", operation: "unwrap" }],
  [
    "unwrap for access",
    "matched",
    { route: "key-access-plan", operation: "unwrap" },
    { operation: "access", artifact_profile: "tdf" },
  ],
  [
    "key rewrap for rewrap",
    "matched",
    { route: "key-access-plan", operation: "rewrap" },
    { operation: "rewrap", artifact_profile: "tdf" },
  ],
  [
    "an enforcement point's question about itself, whatever profile was decided",
    "matched",
    { route: "evaluation", operation: "wrap", profile: "envelope" },
  ],
  [
    "an enforcement point's rewrap of a key",
    "matched",
    { route: "evaluation", operation: "rewrapKey" },
    { operation: "rewrap" },
  ],
  [
    "what an enforcement point asked for another subject",
    "mismatch",
    { route: "evaluation", onBehalfOf: { type: "user", id: "alice" } },
  ],
  [
    "what was denied to another subject",
    "mismatch",
    { route: "evaluation", allow: false, onBehalfOf: { type: "user", id: "alice" } },
    { operation: "deny" },
  ],
  ["deny of a permit", "mismatch", {}, { operation: "deny" }],
  ["deny of a denial", "matched", { allow: false }, { operation: "deny" }],
  ["deny of an old denial", "expired", { allow: false, ageMs: 2 * day }, { operation: "deny" }],
])("%s: %s", async (_, result, decision = {}, citing = undefined) => {
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
