import { expect, test } from "vitest";
import { planProtection } from "../../../src/domain/protection.ts";
import { registerArtifact } from "../../../src/domain/registration.ts";
import type { RegistrationRequest } from "../../../src/domain/requests.ts";
import { createWorld, described, identity, sha256 } from "./world.ts";

// Published vector: the raw CIDv1 of these bytes.
const object = "hello world";
const objectBase64 = Buffer.from(object).toString("base64");
const cid = "bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e";
const signal = new AbortController().signal;

const registration: RegistrationRequest = {
  ...described,
  operation: "protect",
  artifact_profile: "tdf",
  artifact_digest: `sha256:${sha256(object)}`,
};

function setUp(changes: Parameters<typeof createWorld>[0] = {}) {
  const world = createWorld(changes);
  const register = (change: Partial<RegistrationRequest> = {}, base64?: string) =>
    registerArtifact(world.dependencies, identity(), { ...registration, ...change }, base64, signal);
  const decide = async () =>
    (await planProtection(world.dependencies, identity(), { ...described, operation: "protect" })).decision;
  return { ...world, register, decide };
}

test("a matching citation links, and its decision says which evidence is expected", async () => {
  const { register, decide, engine, ledger } = setUp();
  engine.answer = { guidance: { evidence_expected: ["protect", "access"] } };
  const { decisionId } = await decide();
  const answer = await register({ decision_id: decisionId });
  expect(answer.registration).toMatchObject({
    accepted: true,
    catalogActions: ["record_artifact_metadata", "link_decision"],
    evidenceExpected: ["protect", "access"],
  });
  expect(answer.requestSummary.decisionIdPresent).toBe(true);
  expect(ledger.records[1]?.outcome).toMatchObject({ accepted: true, citation: "matched" });
});

test.each([
  ["denied", { allow: false }, {}, /denied/],
  ["mismatch", {}, { resource: { kind: "other" } }, /another principal, resource/],
  ["unknown", {}, { decision_id: "none" }, /no decision that is known/],
  ["erased", {}, {}, /^decision_id names a record that was erased$/],
])("a citation that is %s is recorded and not accepted", async (result, policy, change, warning) => {
  const { register, decide, engine, ledger } = setUp();
  engine.answer = policy;
  const { decisionId } = await decide();
  if (result === "erased") ledger.stored.set(`${identity().caller.tenantId} ${decisionId}`, "erased");
  const answer = await register({ decision_id: decisionId, ...change });
  expect(answer.registration).toMatchObject({ accepted: false, catalogActions: [], evidenceExpected: ["deny"] });
  expect(answer.warnings).toEqual([expect.stringMatching(warning)]);
  expect(ledger.records[1]).toMatchObject({ kind: "registration", outcome: { accepted: false, citation: result } });
});

test("the object's CID is derived, and its bytes are not kept", async () => {
  const { register, ledger } = setUp();
  const answer = await register({}, objectBase64);
  expect(answer.requestSummary.artifactCid).toBe(cid);
  expect(answer.registration.catalogActions).toEqual(["record_artifact_metadata", "derive_artifact_cid"]);
  expect(ledger.records[0]?.outcome).toMatchObject({ artifact_cid: cid, artifact_size_bytes: object.length });
  expect(ledger.records[0]?.request).toEqual(registration);
  expect(JSON.stringify([ledger.records, answer])).not.toContain(objectBase64);
});

const sameBytesOtherCodec = "bafyreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e";
const blake3Cid = "bafkr4ihkuxadzjkxrl3xnyzdkwhr6uoi5qgdsc2smu7r4fkozrmdzvvx4e";

test.each<[string, Partial<RegistrationRequest>, readonly RegExp[]]>([
  ["the same CID", { artifact_cid: cid }, []],
  ["a hash in upper case", { artifact_digest: `sha256:${sha256(object).toUpperCase()}` }, []],
  [
    "a digest that is not computed here",
    { artifact_digest: "house-tree:x" },
    [/^artifact_digest uses a hash function/],
  ],
])("object and claims agree: %s", async (_name, change, expected) => {
  const { register } = setUp();
  const answer = await register(change, objectBase64);
  expect(answer.requestSummary.artifactCid).toBe(cid);
  expect(answer.warnings).toEqual(expected.map((text) => expect.stringMatching(text)));
});

test.each<[string, Partial<RegistrationRequest>, string]>([
  ["the same hash under another codec", { artifact_cid: sameBytesOtherCodec }, "artifact_cid"],
  ["another digest", { artifact_digest: `sha256:${sha256("other")}` }, "artifact_digest"],
  ["another digest, SHA-512", { artifact_digest: `sha512:${"0".repeat(128)}` }, "artifact_digest"],
  ["a digest that is none", { artifact_digest: "sha256:mine" }, "artifact_digest"],
  ["another CID", { artifact_cid: "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku" }, "artifact_cid"],
  ["a CID that is none", { artifact_cid: "mine" }, "artifact_cid"],
])("object and claims differ: %s", async (_name, change, field) => {
  const { register, ledger } = setUp();
  await expect(register(change, objectBase64)).rejects.toMatchObject({
    reason: "invalid_request",
    details: { violations: [{ field }] },
  });
  expect(ledger.appends).toBe(0);
});

test("a CID with an unsupported hash is kept with a warning", async () => {
  const { register } = setUp();
  expect((await register({ artifact_cid: blake3Cid })).warnings).toEqual([]);
  const { warnings } = await register({ artifact_cid: blake3Cid }, objectBase64);
  expect(warnings).toEqual([expect.stringMatching(/^artifact_cid uses a hash function/)]);
});

test("a CID without object is kept; one that does not parse causes a warning", async () => {
  const { register, ledger } = setUp();
  const answer = await register({ artifact_cid: "mine", artifact_merkle_root_cid: "root" });
  expect(answer.requestSummary).toMatchObject({ artifactCid: "mine", artifactMerkleRootCid: "root" });
  expect(answer.warnings).toEqual([
    expect.stringMatching(/^artifact_cid is not a CID/),
    expect.stringMatching(/^artifact_merkle_root_cid is not a CID/),
  ]);
  expect(ledger.records[0]?.outcome).toMatchObject({ artifact_cid: "mine" });
});

test.each([
  ["https://user:pw@host/a?sig=1", "https://host/a", true],
  ["?sig=1", undefined, true],
  ["s3://archive/a.tdf", "s3://archive/a.tdf", false],
])("locator %s is recorded as %s", async (artifact_locator, recorded, isWarned) => {
  const { register, ledger } = setUp();
  const answer = await register({ artifact_locator });
  expect(ledger.records[0]?.request.artifact_locator).toBe(recorded);
  expect(answer.requestSummary.artifactLocatorPresent).toBe(true);
  expect(answer.warnings.some((text) => text.startsWith("artifact_locator"))).toBe(isWarned);
});

test("values that bootstrap does not list are refused", async () => {
  const { register } = setUp({ supportedOperations: ["protect"], supportedProfiles: ["tdf"] });
  await expect(register({ operation: "rewrap", artifact_profile: "envelope" })).rejects.toMatchObject({
    reason: "invalid_request",
    details: { violations: [{ field: "operation" }, { field: "artifact_profile" }] },
  });
});

test("a registration under an allowed rewrap says which names of its artifact the decision named", async () => {
  const { register, ledger, dependencies } = setUp();
  const { artifact_digest } = registration;
  const rewrap = async (change: object) => {
    const request = { ...described, operation: "rewrap" as const, ...change };
    return (await planProtection(dependencies, identity(), request)).decision.decisionId;
  };
  const outcomeOf = async (decision_id: string, base64?: string) => {
    await register({ operation: "rewrap", decision_id }, base64);
    return ledger.records.at(-1)?.outcome;
  };
  const spelled = `sha-256:${Buffer.from(sha256(object), "hex").toString("base64url")}`;
  const named = await rewrap({ artifact_digest: spelled });
  expect(await outcomeOf(named)).toMatchObject({ citation: "matched", rewraps: [artifact_digest] });
  // The CID of the object is the digest's own name.
  expect(await outcomeOf(named, objectBase64)).toMatchObject({ rewraps: [artifact_digest] });
  const another = await rewrap({ artifact_digest: `sha256:${sha256("another")}` });
  for (const unnamed of [await rewrap({}), another])
    expect(await outcomeOf(unnamed)).toMatchObject({ citation: "matched", rewraps: undefined });
});
