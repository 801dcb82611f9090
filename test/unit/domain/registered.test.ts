/** What is looked up of an artifact, what is made of it, and what is decided where it cannot be known. */
import { describe, expect, test } from "vitest";
import { ServiceError } from "../../../src/base/errors.ts";
import type { RecordId } from "../../../src/base/ids.ts";
import { registeredOf, whatIsKnown } from "../../../src/domain/registered.ts";
import { registerArtifact } from "../../../src/domain/registration.ts";
import type { StoredRecord } from "../../../src/ledger/ports/record.ts";
import type { ArtifactRegistrations, FoundRegistration } from "../../../src/ledger/ports/registrations.ts";
import { reliedOnIds } from "../../../src/ledger/search/summary.ts";
import { createWorld, described, identity, sha256 } from "./world.ts";

const digest = `sha256:${sha256("artifact")}`;
const plan = { ...described, operation: "access" as const, artifact_digest: digest };

function found(leafIndex: number, change: object = {}, citation = "none"): FoundRegistration {
  const record = {
    kind: "registration",
    record_id: `record-${leafIndex}`,
    recorded_at: new Date(leafIndex * 1_000).toISOString(),
    caller: { principal_id: "owner", subject: "s", auth_source: "bearer_token" },
    request: {
      ...described,
      artifact_profile: "tdf",
      artifact_digest: digest,
      labels: [`label-${leafIndex}`],
      ...change,
    },
    outcome: { accepted: true, citation },
  } as unknown as StoredRecord;
  return { recordId: record.record_id, leafIndex, record };
}

const recordsOf = (registrations: readonly FoundRegistration[]) => registrations.map(({ record }) => record);

test("the newest registration with a matched citation gives the facts, and all give the labels", () => {
  const key = { key_reference: "kms://a", attributes: { owner: "o" }, resource: { kind: "k" } };
  const known = registeredOf(recordsOf([found(1), found(2, key, "matched"), found(3)]));
  expect(known).toEqual({
    labels: ["label-2"],
    labels_ever: ["label-1", "label-2", "label-3"],
    attributes: { owner: "o" },
    resource: { kind: "k" },
    artifact_profile: "tdf",
    key_reference: "kms://a",
    application: "payroll-export",
    principal: "owner",
    citation_matched: true,
    registered_at: 2_000,
  });
  expect(registeredOf(recordsOf([found(1), found(2)]))).toMatchObject({ labels: ["label-2"], citation_matched: false });
  expect(registeredOf([])).toBeUndefined();
});

test("a rewrap by another principal changes key and profile, and not the owner of the artifact", () => {
  const first = found(1, { resource: { kind: "patient" }, key_reference: "kms://a" }, "matched");
  const rewrap = found(
    2,
    { resource: { kind: "report" }, key_reference: "kms://b", artifact_profile: "envelope" },
    "matched",
  );
  const caller = { ...rewrap.record.caller, principal_id: "rotator" };
  const outcome = { ...rewrap.record.outcome, rewraps: [digest] };
  const by = (record: StoredRecord) => ({ ...record, caller, outcome }) as unknown as StoredRecord;
  expect(registeredOf([first.record, by(rewrap.record)])).toMatchObject({
    labels: ["label-2"],
    labels_ever: ["label-1", "label-2"],
    resource: { kind: "patient" },
    principal: "owner",
    key_reference: "kms://b",
    artifact_profile: "envelope",
  });
});

test("an artifact with more labels than the bound is unknown", () => {
  const many = (first: number, count: number) =>
    found(first, { labels: Array.from({ length: count }, (_, position) => `label-${first}-${position}`) });
  expect(registeredOf(recordsOf([many(1, 999), many(2, 1)]))?.labels_ever).toHaveLength(1_000);
  expect(registeredOf(recordsOf([many(1, 999), many(2, 2)]))).toBeUndefined();
});

describe("several names", () => {
  const [one, two] = [found(1), found(2, {}, "matched")];
  test.each([
    ["of one artifact, with what stands under either", [[one, two], [two]], [1, 2]],
    ["of different artifacts", [[one], [two]], []],
    ["one that was never registered", [[two], []], []],
    ["one of which something was erased", [[two], "erased" as const], []],
    ["one of too many registrations", ["too_many" as const, [two]], []],
    ["none of which is registered", [[], []], []],
  ])("%s", (_, lists, leaves) => {
    const { registered, reliedOn } = whatIsKnown(lists);
    expect(reliedOn.map(({ leafIndex }) => leafIndex)).toEqual(leaves);
    expect(registered === undefined).toBe(leaves.length === 0);
  });
});

test("is not looked up if no policy reads it", async () => {
  const { ledger, protection } = createWorld();
  ledger.registrations = async () => {
    throw new Error("looked up");
  };
  await protection.plan(identity(), plan);
  expect(ledger.records[0]?.outcome.registered).toBeUndefined();
});

test.each([
  [
    "a store that cannot be read",
    new ServiceError("store_unavailable", "The record store is not available."),
    "not available",
  ],
  [
    "a damaged registration",
    new ServiceError("internal", "The stored record is damaged.", { cause: new Error("leaf 1") }),
    "damaged",
  ],
])("%s decides nothing, and the answer says why", async (_what, refusal, said) => {
  const { engine, ledger, protection } = createWorld();
  engine.registered = true;
  ledger.registrations = () => Promise.reject(refusal);
  await expect(protection.plan(identity(), plan)).rejects.toMatchObject({
    reason: "store_unavailable",
    message: expect.stringContaining(said),
    details: { ...refusal.details },
  });
  expect([engine.queries, ledger.records]).toEqual([[], []]);
});

test("a call whose caller has left is not decided", async () => {
  const { engine, ledger, protection } = createWorld();
  engine.registered = true;
  const controller = new AbortController();
  ledger.registrations = async () => {
    controller.abort(new ServiceError("deadline_exceeded", "the deadline has passed"));
    return [[]];
  };
  const call = { ...identity(), signal: controller.signal };
  await expect(protection.plan(call, plan)).rejects.toMatchObject({ reason: "deadline_exceeded" });
  expect([engine.queries, ledger.records]).toEqual([[], []]);
});

test("policies that were replaced meanwhile decide, with the facts that they read", async () => {
  const { engine, ledger, protection } = createWorld();
  engine.registered = true;
  ledger.registrations = async () => {
    engine.registered = false;
    return [[found(4)]];
  };
  await protection.plan(identity(), plan);
  expect(engine.queries.at(-1)).not.toHaveProperty("registered");
  expect(ledger.records[0]?.outcome.registered).toBeUndefined();
  const ids: readonly RecordId[] | undefined = reliedOnIds(ledger.records[0]?.outcome ?? {});
  expect(ids).toBeUndefined();
});

describe("a registrar is warned if its registration changes nothing", () => {
  const registration = {
    ...described,
    operation: "protect",
    artifact_profile: "tdf",
    artifact_digest: digest,
  } as const;
  const outranked = /^another principal registered the artifact before/;
  const by = (one: FoundRegistration, principal_id: string, rewraps?: readonly string[]): FoundRegistration => {
    const { caller, outcome } = one.record;
    const record = { ...one.record, caller: { ...caller, principal_id }, outcome: { ...outcome, rewraps } };
    return { ...one, record: record as unknown as StoredRecord };
  };
  const others = [by(found(1, {}, "matched"), "another-principal")];
  test.each<[name: string, known: ArtifactRegistrations, isTold: boolean]>([
    ["it was never registered before", [], false],
    ["it did so itself", [by(found(1), "payroll-service")], false],
    ["another principal did, without a citation", [by(found(1), "another-principal")], true],
    ["another principal did, with one", others, true],
    ["nothing is known any more", "erased", false],
  ])("%s", async (_, known, isTold) => {
    const { ledger, dependencies } = createWorld();
    ledger.registered.set(digest, known);
    const { signal } = new AbortController();
    const register = (change: object = {}) =>
      registerArtifact(dependencies, identity(), { ...registration, ...change }, undefined, signal);
    const answer = await register();
    expect(answer.registration.accepted).toBe(true);
    expect(answer.warnings).toEqual(isTold ? [expect.stringMatching(outranked)] : []);
    // What is not accepted counts anyway for nothing, and says so.
    const unknown = await register({ decision_id: "none" });
    expect(unknown.warnings).toEqual([expect.stringMatching(/no decision that is known/)]);
  });

  test("it is not warned if this is unknown, and the registration is recorded", async () => {
    const { ledger, dependencies } = createWorld();
    const { signal } = new AbortController();
    ledger.registrations = async () => {
      throw new ServiceError("internal", "The stored record is damaged.");
    };
    const answer = await registerArtifact(dependencies, identity(), registration, undefined, signal);
    expect(answer).toMatchObject({ registration: { accepted: true }, warnings: [] });
  });
});
