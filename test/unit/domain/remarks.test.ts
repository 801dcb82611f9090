/** What a report says of decisions and what cites them: its words, case by case. */
import { describe, expect, test } from "vitest";
import type { RecordId } from "../../../src/base/ids.ts";
import { reportText } from "../../../src/cli/ledger/pack-commands.ts";
import { type Lineage, LineageCollector, lineageOf } from "../../../src/domain/lineage/lineage.ts";
import type { Step } from "../../../src/domain/lineage/remarks.ts";
import { type PackReport, packReport } from "../../../src/domain/lineage/report.ts";
import { rawCid } from "../../../src/ledger/artifacts/cid.ts";
import type { PackSelection } from "../../../src/ledger/pack/format.ts";
import { type MemoryLog, memoryLog, moment } from "../ledger/pack/memory-log.ts";
import { verifyText } from "../ledger/pack/packs.ts";
import { decision, evidence, registration } from "../ledger/pack/records.ts";

const everything = { to: moment(100) };
const ofArtifact = { field: "artifact_digest", value: "sha256:a" } as const;

/** Codes of remarks by lineage, each behind its leaf. Leaf 0 is the genesis. */
async function remarks(log: MemoryLog, selection: PackSelection = everything): Promise<readonly string[]> {
  const lineage = new LineageCollector();
  const pack = await verifyText(await log.pack(selection), [log.verifier()], (entry) => lineage.add(entry));
  const { lineages = [] } = packReport(pack, { records: 0, erased: 0, leavesOnly: 0 }, lineage.report(pack.range));
  return lineages.map((each) => each.remarks.map(({ leaf_index, code }) => `${leaf_index} ${code}`).join(", "));
}

type Play = (log: MemoryLog, decided: RecordId) => unknown;
const failing = (word: string) => ({ ...evidence("protect", { digest: "sha256:a" }).request, outcome: word });
const event = (log: MemoryLog, decided: RecordId, word?: string) => {
  const made = evidence("protect", { digest: "sha256:a", decision: decided });
  return log.append(word === undefined ? made : { ...made, request: { ...failing(word), decision_id: decided } });
};

describe("an allowed decision, leaf 1, with a registration, leaf 2, is", () => {
  test.each<[string, Play, readonly string[], PackSelection?]>([
    ["evidenced", (log, id) => event(log, id), [""]],
    [
      "evidenced by an event that names no artifact",
      (log, id) => log.append(evidence("protect", { decision: id })),
      ["", ""],
    ],
    [
      "evidenced by an event that names another digest",
      (log, id) => log.append(evidence("protect", { digest: "sha256:b", decision: id })),
      ["", "3 event_without_registration"],
    ],
    [
      "evidenced for every artifact that was registered under it",
      (log, id) => [log.append(registration({ digest: "sha256:b", decision: id })), event(log, id)],
      ["", ""],
    ],
    [
      "evidenced beside a registration that cites no decision",
      (log, id) => [event(log, id), log.append(registration({ digest: "sha256:b" }))],
      ["", "4 registered_without_decision"],
    ],
    ["not evidenced", () => {}, ["1 allowed_not_evidenced"]],
    [
      "not evidenced for any artifact that was registered under it",
      (log, id) => log.append(registration({ digest: "sha256:b", decision: id })),
      ["1 allowed_not_evidenced", "1 allowed_not_evidenced"],
    ],
    [
      "not evidenced by an event that did not match",
      (log, id) => log.append(evidence("protect", { digest: "sha256:a", decision: id, citation: "expired" })),
      ["1 allowed_not_evidenced, 3 event_without_decision"],
    ],
    ["not evidenced by a failure", (log, id) => event(log, id, "failed: key not found"), ["1 allowed_evidence_failed"]],
    [
      "not evidenced by a failure in other words",
      (log, id) => event(log, id, " Failed "),
      ["1 allowed_evidence_failed"],
    ],
    ["evidenced by what was done after a failure", (log, id) => [event(log, id, "failed"), event(log, id)], [""]],
    ["evidenced by what was done before a failure", (log, id) => [event(log, id), event(log, id, "aborted")], [""]],
    [
      "perhaps evidenced by an event that was erased",
      (log, id) => log.erase(event(log, id)),
      ["1 allowed_evidence_not_shown"],
    ],
    [
      "not evidenced where a registration was erased",
      (log) => log.erase(log.append(registration({ digest: "sha256:b" }))),
      ["1 allowed_not_evidenced"],
    ],
    [
      "perhaps evidenced behind the end of the range",
      (log, id) => event(log, id),
      ["1 allowed_evidence_not_shown"],
      { to: moment(2) },
    ],
    ["perhaps evidenced outside of a pack by value", () => {}, ["1 allowed_evidence_not_shown"], ofArtifact],
    ["evidenced in a pack by value", (log, id) => event(log, id), [""], ofArtifact],
  ])("%s", async (_, play, expected, selection) => {
    const log = memoryLog();
    const decided = log.append(decision(true));
    log.append(registration({ digest: "sha256:a", decision: decided }));
    play(log, decided);
    expect(await remarks(log, selection)).toEqual(expected);
  });

  test.each(["incomplete", "partial", "error", "not completed", "completed with errors", "ok", "failover", "recorded"])(
    "not evidenced by an event of outcome %s, which is reported as an unknown word",
    async (word) => {
      const log = memoryLog();
      event(log, log.append(decision(true)), word);
      expect((await remarks(log))[0]).toBe(
        "1 allowed_outcome_unknown, 2 event_without_registration, 2 unknown_outcome",
      );
    },
  );

  test.each([
    [["releasing"], "1 allowed_outcome_unknown"],
    [["releasing", "failed"], "1 allowed_evidence_failed"],
    [["failed", "partial"], "1 allowed_outcome_unknown"],
    [["releasing", "Completed"], ""],
    [["partial", "completed", "failed"], ""],
  ])("after events of the outcomes %j it is: %s", async (said, expected) => {
    const log = memoryLog();
    const decided = log.append(decision(true));
    for (const word of said) event(log, decided, word);
    const own = (await remarks(log))[0]?.split(", ").filter((each) => each.startsWith("1 "));
    expect(own?.join()).toBe(expected);
  });
});

test.each(["/v1/sdk/protection-plan", "/v1/sdk/policy-resolve", "/v1/sdk/key-access-plan"])(
  "an allowed decision of %s is followed by evidence, unless its policy expects none",
  async (route) => {
    const log = memoryLog();
    const decided = { ...decision(true), route };
    log.append(decided);
    log.append({ ...decided, outcome: { ...decided.outcome, guidance: { evidence_expected: [] } } });
    expect(await remarks(log)).toEqual(["1 allowed_not_evidenced", ""]);
  },
);

test("a report counts allowed decisions by their evidence, and states it for each", async () => {
  const log = memoryLog();
  const bulk = [{}, {}, {}].map(() => log.append({ ...decision(true), route: "/v1/sdk/policy-resolve" }));
  log.append(decision(false));
  event(log, bulk[0] as RecordId);
  event(log, bulk[1] as RecordId, "failed");
  const lineage = new LineageCollector();
  const pack = await verifyText(await log.pack(everything), [log.verifier()], (entry) => lineage.add(entry));
  const { evidence: counts, lineages = [] } = lineage.report(pack.range) ?? {};
  expect(counts).toEqual({ allowed: 3, evidenced: 1, failed: 1, missing: 1 });
  const steps = lineages.flatMap((each) => each.steps).filter(({ kind }) => kind === "decision");
  const said = new Map(steps.map((step) => [step.record_id, [step.expects_evidence, step.evidence]]));
  expect(bulk.map((id) => said.get(id))).toEqual([
    [true, "evidenced"],
    [true, "failed"],
    [true, "missing"],
  ]);
  expect(reportText(packReport(pack, { records: 0, erased: 0, leavesOnly: 0 }, lineage.report(pack.range)))).toContain(
    "3 allowed decisions: 1 evidenced, 1 failed, 1 missing",
  );
});

describe("an AuthZEN question", () => {
  const question = (allow: boolean) => ({ ...decision(allow), route: "/access/v1/evaluation" });

  test("needs no evidence", async () => {
    const log = memoryLog();
    log.append(question(true));
    log.append(question(false));
    expect(await remarks(log)).toEqual(["", ""]);
  });

  test("needs evidence once something was registered under it", async () => {
    const log = memoryLog();
    const asked = log.append(question(true));
    log.append(registration({ decision: asked }));
    expect(await remarks(log)).toEqual(["1 allowed_not_evidenced"]);
    event(log, asked);
    expect(await remarks(log)).toEqual([""]);
  });

  test("may need evidence if a registration was erased", async () => {
    const log = memoryLog();
    const asked = log.append(question(true));
    log.erase(log.append(registration({ decision: asked })));
    expect(await remarks(log)).toContain("1 allowed_evidence_not_shown");
    log.append(question(true));
    expect((await remarks(log)).filter((each) => each.includes("allowed"))).toHaveLength(1);
  });

  test("needs no evidence that its policy does not expect, despite a registration", async () => {
    for (const asked of [question(true), decision(true)]) {
      const log = memoryLog();
      const { outcome } = asked;
      const decided = log.append({ ...asked, outcome: { ...outcome, guidance: { evidence_expected: [] } } });
      log.append(registration({ decision: decided }));
      expect(await remarks(log)).toEqual([""]);
    }
  });
});

test.each([
  ["a registration that was refused", registration, "2 registration_refused"],
  ["an event", (named: object) => evidence("access", named), "2 event_after_denial, 2 event_without_registration"],
  ["the event of the denial itself", (named: object) => evidence("deny", { ...named, citation: "matched" }), ""],
])("a citation of a denial: %s", async (_, make, expected) => {
  const log = memoryLog();
  const denied = log.append(decision(false, "access"));
  log.append(make({ digest: "sha256:a", decision: denied, citation: "denied" }));
  expect(await remarks(log)).toEqual([expected]);
});

/** The same, whose members are counted as they are read. */
function counted<Value extends object>(value: Value, work: { reads: number }): Value {
  return new Proxy(value, {
    get(target, name) {
      work.reads += 1;
      return Reflect.get(target, name);
    },
  });
}

/** Steps of one artifact, whose members are counted as they are read. */
function countedSteps(count: number) {
  const work = { reads: 0 };
  const steps = Array.from({ length: count }, (_, index): Step => {
    const [kind, decided] = [index % 2 === 0 ? "decision" : "evidence", `d${index - (index % 2)}`] as const;
    const named = kind === "evidence" ? { operation: "protect", citation: "none", artifact_digest: "a" } : {};
    const step = { leaf_index: index, recorded_at: moment(index), kind, record_id: `d${index}`, decision_id: decided };
    const told = { ...step, outcome: kind === "decision" ? "allowed" : "completed", ...named };
    return counted(told as unknown as Step, work);
  });
  return { steps, work };
}

test("a lineage and its text cost the same for each step, however many one artifact has", () => {
  const readsEach = (count: number) => {
    const { steps, work } = countedSteps(count);
    const { lineages, others } = lineageOf(steps, { firstLeafIndex: 0, leaves: count, closed: false });
    expect(lineages.flatMap(({ remarks: each }) => each)).toHaveLength(count * 2 - count / 2);
    const remarked = lineages.map(
      (each): Lineage => ({ ...each, remarks: each.remarks.map((remark) => counted(remark, work)) }),
    );
    reportText({
      lineages: remarked,
      others,
      policies: [],
      proven: [],
      not_proven: [],
      selection: {},
      witnesses: [],
    } as unknown as PackReport);
    return work.reads / count;
  };
  const few = readsEach(1_000);
  // Sorting costs a logarithm; 8 times the steps would cost 8 times as much each where work is quadratic.
  expect(readsEach(8_000)).toBeLessThan(2 * few);
});

test("an artifact has one lineage, however its records spell its digest or CID", async () => {
  const bytes = Buffer.alloc(32, 0xab);
  const log = memoryLog();
  const decided = log.append(decision(true));
  log.append(registration({ digest: `sha256:${bytes.toString("hex")}`, decision: decided }));
  for (const named of [
    { digest: `sha-256:${bytes.toString("hex").toUpperCase()}` },
    { digest: `sha256:${bytes.toString("base64url")}` },
    { cid: rawCid(bytes.toString("hex")) },
    { cid: rawCid(bytes.toString("hex")).toUpperCase() },
  ])
    log.append(evidence("protect", { ...named, decision: decided }));
  expect(await remarks(log)).toEqual([""]);
});

test("a decision is listed with the artifact of the registration that it relied on, whatever it names", () => {
  const members = { recorded_at: moment(0), record_id: "" };
  const registered: Step = {
    ...members,
    leaf_index: 1,
    kind: "registration",
    record_id: "registered",
    outcome: "accepted",
    artifact_digest: "sha256:aa",
  };
  const opened: Step = {
    ...members,
    leaf_index: 2,
    kind: "decision",
    record_id: "opened",
    decision_id: "opened",
    outcome: "allowed",
    artifact_digest: "sha-256:AA",
    relied_on: ["registered"],
  };
  const { lineages } = lineageOf([registered, opened], undefined);
  expect(lineages).toMatchObject([{ artifact_digests: ["sha256:aa", "sha-256:AA"], steps: [registered, opened] }]);
  const { relied_on: _, ...unrelated } = opened;
  expect(lineageOf([registered, unrelated], undefined).lineages).toHaveLength(2);
});

test("of two records of one id, which no service makes, both are reported", async () => {
  const log = memoryLog();
  const denied = log.append(decision(false));
  log.append(registration({ digest: "sha256:a", decision: denied, citation: "denied" }));
  log.forge((leaf, record) => {
    for (const each of [leaf, record]) each.record_id = denied;
    Object.assign(record, { outcome: { ...decision(true).outcome, policy_revision: leaf.policy_revision } });
  }, denied);
  const lineage = new LineageCollector();
  const { range } = await verifyText(await log.pack(everything), [log.verifier()], (entry) => lineage.add(entry));
  const { lineages = [], others = [] } = lineage.report(range) ?? {};
  const reported = [...lineages.flatMap(({ steps }) => steps), ...others].map(({ leaf_index }) => leaf_index);
  expect(reported.toSorted()).toEqual([0, 1, 2, 3]);
});
