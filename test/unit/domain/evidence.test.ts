import { expect, test } from "vitest";
import { recordEvidence } from "../../../src/domain/evidence.ts";
import { planProtection } from "../../../src/domain/protection.ts";
import type { EvidenceRequest } from "../../../src/domain/requests.ts";
import { createWorld, described, identity, sha256 } from "./world.ts";

const event: EvidenceRequest = {
  ...described,
  event_type: "protect",
  artifact_digest: `sha256:${sha256("artifact")}`,
};

function setUp(changes: Parameters<typeof createWorld>[0] = {}) {
  const world = createWorld(changes);
  const record = (change: Partial<EvidenceRequest> = {}) =>
    recordEvidence(world.dependencies, identity(), { ...event, ...change });
  return { ...world, record };
}

test.each(["failed: key not found", "Aborted", "releasing", "", undefined])(
  "the outcome %j draws no warning",
  async (outcome) => {
    const { record } = setUp();
    expect((await record(outcome === undefined ? {} : { outcome })).warnings).toEqual([]);
  },
);

test.each(["incomplete", "partial", "ok", "completed with errors"])(
  "the outcome %j is kept, with a warning that names the known words and not the value",
  async (outcome) => {
    const { record, ledger } = setUp();
    const { warnings } = await record({ outcome });
    expect(warnings).toEqual([expect.stringContaining("completed, failed, aborted, refused, releasing")]);
    expect(warnings.join()).not.toContain(`"${outcome}"`);
    expect(ledger.records).toMatchObject([{ request: { outcome } }]);
  },
);

test.each([
  ["protect", true, "matched", 0],
  ["protect", false, "denied", 1],
] as const)("event %s citing a decision that allowed: %s is %s", async (event_type, allow, result, warnings) => {
  const { record, dependencies, engine, ledger } = setUp();
  engine.answer = { allow };
  const plan = await planProtection(dependencies, identity(), { ...described, operation: "protect" });
  const answer = await record({ event_type, decision_id: plan.decision.decisionId });
  expect(answer.ingestion.accepted).toBe(true);
  expect(answer.ingestion.correlateBy.includes("decision_id")).toBe(result === "matched");
  expect(answer.warnings).toHaveLength(warnings);
  expect(ledger.records[1]).toMatchObject({
    kind: "evidence",
    request: { decision_id: plan.decision.decisionId },
    outcome: { citation: result },
  });
});

test("reports each recorded event, with whether its citation matches", async () => {
  const { dependencies, engine } = setUp();
  engine.answer = { allow: true };
  const plan = await planProtection(dependencies, identity(), { ...described, operation: "protect" });
  const seen: unknown[] = [];
  const observed = { ...dependencies, observeEvidence: (...given: unknown[]) => void seen.push(given) };
  await recordEvidence(observed, identity(), { ...event, decision_id: plan.decision.decisionId });
  await recordEvidence(observed, identity(), event);
  expect(seen).toEqual([
    ["tenant-a", true],
    ["tenant-a", false],
  ]);
});

test("an unknown decision causes a warning, and the event is recorded unchanged", async () => {
  const { record, ledger } = setUp();
  const answer = await record({ decision_id: "made-up" });
  expect(answer.warnings).toEqual([expect.stringMatching(/no decision that is known/)]);
  expect(ledger.records[0]).toMatchObject({ request: { decision_id: "made-up" }, outcome: { citation: "unknown" } });
});

test.each([
  ["2026-03-01T12:05:00Z", []],
  ["2026-03-01T12:05:00.001Z", [expect.stringMatching(/^occurred_at/)]],
  ["0002-01-01T00:00:00Z", []],
])("occurred_at %s, received at 12:00", async (occurred_at, warnings) => {
  const { record, ledger } = setUp();
  const answer = await record({ occurred_at });
  expect(answer.warnings).toEqual(warnings);
  expect(ledger.records[0]?.request.occurred_at).toBe(occurred_at);
});

test("the zero time is absent", async () => {
  const { record, ledger } = setUp();
  const answer = await record({ occurred_at: "0001-01-01T00:00:00Z" });
  expect(answer.requestSummary.occurredAt).toBeUndefined();
  expect(ledger.records[0]?.request).toEqual(event);
});

test("an invalid timestamp and an unlisted profile are refused together", async () => {
  const { record, ledger } = setUp({ supportedProfiles: ["tdf"] });
  await expect(record({ occurred_at: "yesterday", artifact_profile: "envelope" })).rejects.toMatchObject({
    reason: "invalid_request",
    details: { violations: [{ field: "artifact_profile" }, { field: "occurred_at" }] },
  });
  expect(ledger.appends).toBe(0);
});

test("an event without anything to link it causes a warning", async () => {
  const { dependencies } = setUp();
  const { artifact_digest: _, ...without } = event;
  const answer = await recordEvidence(dependencies, identity(), without);
  expect(answer.ingestion.correlateBy).toEqual(["resource.id"]);
  expect(answer.warnings).toEqual([expect.stringMatching(/cannot be linked/)]);
});
