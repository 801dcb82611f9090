/** Detached signatures against a real service: what is signed, verified, refused, kept, and what the ledger has of it. */
import { generateKeyPairSync } from "node:crypto";
import { readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  createEnforcer,
  type EnforcerOptions,
  localSigningKey,
  type Platform,
  receiptsPathOf,
  verifyArtifact,
} from "../../clients/typescript/src/enforce/index.ts";
import type { EvidenceEvent, Registration } from "../../clients/typescript/src/enforce/platform.ts";
import {
  type EnforcementStack,
  enforcementFolder,
  failureOf,
  noAnswer,
  startEnforcementStack,
} from "../harness/enforcement.ts";

let stack: EnforcementStack;
const newKey = (reference: string) =>
  localSigningKey(reference, { ...generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" }) });
const key = newKey("local-signer");
const otherKey = newKey("local-other-signer");
const { sign: _, ...publicKey } = key;
const workload = { application: "release-signer", environment: "production" };
const resource = { kind: "build-artifact", id: "app-1.2", mime_type: "application/gzip" };
const data = Buffer.from(Array.from({ length: 2_500_000 }, (_, i) => i % 249));
const profile = "detached_signature";

beforeAll(async () => {
  stack = await startEnforcementStack();
});
afterAll(() => stack.stop());
const { at, spool, files } = enforcementFolder("data", data);

function enforcer(options: Partial<EnforcerOptions> = {}) {
  const defaults = { client: stack.platform(), workload, keys: [key, otherKey], spoolDirectory: at("spool") };
  return createEnforcer({ ...defaults, ...options });
}

const signFile = (options: Partial<EnforcerOptions> = {}, labels: readonly string[] = []) =>
  enforcer(options).protect({ profile, input: at("data"), output: at("sig"), resource, labels, purpose: "audit" });

const openFile = (options: Partial<EnforcerOptions> = {}) =>
  enforcer(options).open({ input: at("data"), signature: at("sig"), output: at("opened"), purpose: "audit" });

const altered = (calls: Partial<Platform>) => stack.altered(calls);
const headerOf = (name: string) =>
  JSON.parse(Buffer.from(JSON.parse(readFileSync(at(name), "utf8")).payload, "base64").toString()).predicate;

test("a file is signed, opened, signed again, opened with the new key, and shown by its receipts", async () => {
  const logKeys = [await stack.logKey()];
  const events: EvidenceEvent[] = [];
  const registrations: Registration[] = [];
  const client = altered({
    recordEvidence: (event, ...others) => {
      events.push(event);
      return stack.platform().recordEvidence(event, ...others);
    },
    registerArtifact: (registration, ...others) => {
      registrations.push(registration);
      return stack.platform().registerArtifact(registration, ...others);
    },
  });
  const signed = await signFile({ client, logKeys }, ["confidential"]);
  expect(signed).toMatchObject({ evidence: "recorded", receipts: { artifact_profile: profile } });
  expect(readFileSync(at("data")).equals(data)).toBe(true);
  expect(statSync(at("sig")).mode & 0o777).toBe(0o600);
  const header = headerOf("sig");
  expect(header).toMatchObject({
    binding: { decision_id: signed.decisionId, labels: ["confidential"], resource, content_size_bytes: data.length },
    key: { reference: key.reference },
  });

  await openFile({ client, logKeys, keys: [publicKey] });
  expect(readFileSync(at("opened")).equals(data)).toBe(true);

  const request = { profile, input: at("sig"), output: at("anew"), newKeyReference: otherKey.reference } as const;
  await enforcer({ client, logKeys, keys: [publicKey, otherKey] }).rewrap({ ...request, purpose: "audit" });
  expect(headerOf("anew").binding).toEqual(header.binding);
  const again = { input: at("data"), signature: at("anew"), output: at("again"), purpose: "audit" };
  expect(await failureOf(enforcer({ keys: [key] }).open(again))).toBe("invalid");
  await enforcer({ client, keys: [otherKey] }).open(again);

  expect(events.map(({ event_type, outcome, artifact_profile }) => [event_type, outcome, artifact_profile])).toEqual(
    ["protect", "access", "rewrap", "access"].map((type) => [type, "completed", profile]),
  );
  expect(registrations).toMatchObject([
    { operation: "protect", artifact_profile: profile, artifact_digest: signed.artifactDigest },
    { operation: "rewrap", artifact_profile: profile, key_reference: otherKey.reference },
  ]);
  const shown = { logKeys, data: at("data"), keys: [key, otherKey] };
  expect(await verifyArtifact({ ...shown, artifact: at("sig") })).toMatchObject({ operation: "protect" });
  expect(await verifyArtifact({ ...shown, artifact: at("anew") })).toMatchObject({ operation: "rewrap" });
  expect(await verifyArtifact({ logKeys, artifact: at("opened"), kind: "opened" })).toMatchObject({
    operation: "access",
    isContentProven: true,
  });
  expect(spool()).toEqual([]);
  expect(files().filter((name) => name.endsWith(".partial"))).toEqual([]);
});

test("what is not allowed leaves nothing, and evidence", async () => {
  const events: EvidenceEvent[] = [];
  const recordEvidence: Platform["recordEvidence"] = (event, ...others) => {
    events.push(event);
    return stack.platform().recordEvidence(event, ...others);
  };
  expect(await failureOf(signFile({ client: altered({ recordEvidence }) }, ["do-not-export"]))).toBe("not_permitted");
  const envelopesOnly = async () => ({ ...(await stack.platform().deployment()), profiles: ["envelope"] });
  expect(await failureOf(signFile({ client: altered({ recordEvidence, deployment: envelopesOnly }) }))).toBe(
    "not_permitted",
  );
  // The deployment decided nothing: there is nothing to record.
  expect(events).toMatchObject([{ event_type: "deny", outcome: "refused", artifact_profile: profile }]);
  expect(files()).toEqual([]);
});

test("a profile that the policy overrides is refused", async () => {
  const image = { kind: "medical-image" };
  const request = { profile, input: at("data"), output: at("sig"), resource: image } as const;
  expect(await failureOf(enforcer().protect(request))).toBe("not_permitted");
  expect(files()).toEqual([]);
});

test.each(["deployment", "planProtection", "planKeyAccess", "registerArtifact", "recordEvidence"] as const)(
  "no answer to %s is no permission",
  async (call) => {
    expect(await failureOf(signFile({ client: altered({ [call]: noAnswer }) }))).toBe("unavailable");
    expect(files()).toEqual([]);
    await signFile();
    if (call === "registerArtifact") return;
    expect(await failureOf(openFile({ client: altered({ [call]: noAnswer }) }))).toBe("unavailable");
    expect(files().sort()).toEqual(["sig", "sig.receipts.json"]);
  },
);

test("a changed, cut or other file gives nothing, and evidence that says so", async () => {
  const events: EvidenceEvent[] = [];
  const client = altered({
    recordEvidence: (event, ...others) => {
      events.push(event);
      return stack.platform().recordEvidence(event, ...others);
    },
  });
  await signFile();
  const signature = readFileSync(at("sig"));
  const places = [0, data.length >> 1, data.length - 1];
  const changes = [
    ...places.map((place) => Buffer.from(data).fill((data[place] as number) ^ 1, place, place + 1)),
    data.subarray(0, -1),
    Buffer.concat([data, Buffer.alloc(1)]),
    Buffer.alloc(0),
  ];
  for (const changed of changes) {
    writeFileSync(at("data"), changed);
    expect(await failureOf(openFile({ client }))).toBe("not_authentic");
    expect(files()).not.toContain("opened");
  }
  expect(events).toHaveLength(changes.length);
  for (const event of events)
    expect(event).toMatchObject({
      event_type: "access",
      outcome: "failed",
      attributes: { enforcement_failure: "not_authentic" },
    });

  writeFileSync(at("data"), data);
  writeFileSync(at("sig"), signature.subarray(0, -1));
  expect(await failureOf(openFile())).toBe("not_authentic");
  writeFileSync(at("sig"), signature);
  expect(await failureOf(openFile({ keys: [otherKey] }))).toBe("invalid");
  expect(await failureOf(openFile({ keys: [newKey(key.reference)] }))).toBe("not_authentic");
  expect(files()).not.toContain("opened");
  await openFile();
});

test("receipts of another signature, other data and other keys are noticed offline", async () => {
  const logKeys = [await stack.logKey()];
  await signFile();
  const receipts = readFileSync(receiptsPathOf(at("sig")));
  const verify = (more: object = {}) => verifyArtifact({ artifact: at("sig"), logKeys, ...more });
  await verify({ data: at("data"), keys: [publicKey] });
  writeFileSync(at("other"), "other data");
  expect(await failureOf(verify({ data: at("other") }))).toBe("not_authentic");
  expect(await failureOf(verify({ keys: [otherKey] }))).toBe("invalid");
  expect(await failureOf(verify({ keys: [newKey(key.reference)] }))).toBe("not_authentic");
  const otherProfile = JSON.stringify({ ...JSON.parse(receipts.toString()), artifact_profile: "tdf" });
  writeFileSync(receiptsPathOf(at("sig")), otherProfile);
  expect(await failureOf(verify())).toBe("not_authentic");
  rmSync(at("sig"));
  await signFile();
  writeFileSync(receiptsPathOf(at("sig")), receipts);
  expect(await failureOf(verify())).toBe("not_authentic");
});

test("evidence that cannot be sent withholds the data, unless that is tolerated", async () => {
  await signFile();
  const client = altered({ recordEvidence: noAnswer });
  expect(await failureOf(openFile({ client }))).toBe("unavailable");
  expect(files()).not.toContain("opened");
  expect(await failureOf(openFile({ client }))).toBe("evidence_overdue");
  await enforcer().flush();
  expect(await openFile({ client, evidenceToleranceMs: 60_000 })).toMatchObject({ evidence: "pending" });
  expect(await enforcer().flush()).toEqual({ sent: 1, waiting: 0 });
});
