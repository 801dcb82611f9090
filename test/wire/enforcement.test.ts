/** Local enforcement against a real service: what is done, what is refused, what is kept, and what the ledger has of it. */
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { chmodSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import {
  createEnforcer,
  createKeyFile,
  type EnforcerOptions,
  keyFile,
  localKey,
  localSigningKey,
  type Platform,
  receiptsPathOf,
  verifyArtifact,
} from "../../clients/typescript/src/enforce/index.ts";
import type { Decision, EvidenceEvent } from "../../clients/typescript/src/enforce/platform.ts";
import { draws } from "../harness/draws.ts";
import { enforcementFolder, failureOf, noAnswer, saying, startEnforcementStack } from "../harness/enforcement.ts";
import { forFile } from "../harness/lifetimes.ts";

const key = localKey("local-symmetric-key", randomBytes(32));
const otherKey = localKey("local-other-key", randomBytes(32));
const workload = { application: "payroll-export", environment: "production" };
const resource = { kind: "customer-record", id: "cust-8841", mime_type: "application/pdf" };
const plaintext = randomBytes(2_500_000);

const stack = await forFile(startEnforcementStack());
const { at, spool, files } = enforcementFolder("plain", plaintext);

function enforcer(options: Partial<EnforcerOptions> = {}) {
  const defaults = { client: stack.platform(), workload, keys: [key, otherKey], spoolDirectory: at("spool") };
  return createEnforcer({ ...defaults, ...options });
}

const protectFile = (options: Partial<EnforcerOptions> = {}, labels: readonly string[] = []) =>
  enforcer(options).protect({ input: at("plain"), output: at("sealed"), resource, labels, purpose: "audit" });

const openFile = (options: Partial<EnforcerOptions> = {}) =>
  enforcer(options).open({ input: at("sealed"), output: at("opened"), purpose: "audit" });

const altered = (calls: Partial<Platform>) => stack.altered(calls);

/** Answers to the question about protection, as something on the way changes them. */
const doctored = (change: (decision: Decision) => Decision): Partial<Platform> => ({
  planProtection: async (question) => change(await stack.platform().planProtection(question)),
});
const planned = (plan: Partial<Decision["plan"]>) => doctored((it) => ({ ...it, plan: { ...it.plan, ...plan } }));

describe("a file", () => {
  test("leaves a sealed file that its owner alone may read, and nothing else behind", async () => {
    const sealed = await protectFile({}, ["confidential"]);
    expect(sealed.evidence).toBe("recorded");
    expect(readFileSync(at("sealed")).includes(plaintext.subarray(0, 64))).toBe(false);
    expect(statSync(at("sealed")).mode & 0o777).toBe(0o600);
    await openFile();
    expect(readFileSync(at("opened")).equals(plaintext)).toBe(true);
    const request = { input: at("sealed"), output: at("rewrapped"), newKeyReference: otherKey.reference };
    await enforcer().rewrap({ ...request, purpose: "audit" });
    const again = { input: at("rewrapped"), output: at("no"), purpose: "audit" };
    expect(await failureOf(enforcer({ keys: [key] }).open(again))).toBe("invalid");
    expect(spool()).toEqual([]);
    expect(files().filter((name) => name.endsWith(".partial"))).toEqual([]);
  });

  test("is asked about by its content digest, and must then not change", async () => {
    const request = { input: at("plain"), output: at("sealed"), resource, withContentDigest: true };
    const platform = altered({
      planProtection: (question) => {
        writeFileSync(at("plain"), randomBytes(10));
        return stack.platform().planProtection(question);
      },
    });
    expect(await failureOf(enforcer({ client: platform }).protect(request))).toBe("invalid");
    expect(files()).toEqual([]);
    await enforcer().protect(request);
  });
});

describe("a refused operation leaves no file, and records evidence", () => {
  const events: EvidenceEvent[] = [];
  const watched = (calls: Partial<Platform> = {}) =>
    altered({
      recordEvidence: (event, ...others) => {
        events.push(event);
        return stack.platform().recordEvidence(event, ...others);
      },
      ...calls,
    });
  beforeEach(() => events.splice(0));

  test("a denial", async () => {
    expect(await failureOf(protectFile({ client: watched() }, ["do-not-export"]))).toBe("not_permitted");
    expect(files()).toEqual([]);
    expect(events).toMatchObject([{ event_type: "deny", decision_id: expect.stringMatching(/-/) }]);
  });

  const deployment = { plaintextToPlatform: false, operations: ["protect"], profiles: ["envelope"], missingScopes: [] };
  const deployed = (more: object) => ({ deployment: async () => ({ ...deployment, ...more }) });

  test.each<[string, Partial<Platform>]>([
    ["no clear yes", doctored((it) => ({ ...it, allow: "true" as unknown as boolean }))],
    ["no decision id", doctored((it) => ({ ...it, decisionId: "" }))],
    ["an obligation that is not known", doctored((it) => ({ ...it, obligations: [{ id: "x", parameters: {} }] }))],
    [
      "one that has no clear bound",
      doctored((it) => ({ ...it, obligations: [{ id: "evidence-within", parameters: { seconds: "soon" } }] })),
    ],
    ["work elsewhere", planned({ isLocal: false })],
    ["plaintext that travels", planned({ sendPlaintextToPlatform: true })],
    ["another profile", planned({ artifactProfile: "tdf" })],
    ["a managed key", planned({ keyTransport: "authorized_key_release" })],
    ["hardware", planned({ handlingMode: "local_hardware_enforcement" })],
    ["another library", planned({ library: "hsm" })],
    ["a profile that is not there", deployed({ profiles: ["tdf"] })],
    ["a scope that is missing", deployed({ missingScopes: ["keys.use"] })],
    ["a registration that does not stand", { registerArtifact: async () => ({ accepted: false, warnings: ["no"] }) }],
  ])("a plan with %s", async (_, calls) => {
    expect(await failureOf(protectFile({ client: watched(calls) }))).toBe("not_permitted");
    expect(files()).toEqual([]);
  });

  test.each(["deployment", "planProtection", "planKeyAccess", "registerArtifact", "recordEvidence"] as const)(
    "no answer to %s",
    async (call) => {
      expect(await failureOf(protectFile({ client: altered({ [call]: noAnswer }) }))).toBe("unavailable");
      expect(files()).toEqual([]);
      await protectFile();
      if (call === "registerArtifact") return;
      expect(await failureOf(openFile({ client: altered({ [call]: noAnswer }) }))).toBe("unavailable");
      expect(files()).not.toContain("opened");
    },
  );

  test("an artifact that was changed", async () => {
    await protectFile();
    const sealed = readFileSync(at("sealed"));
    writeFileSync(at("sealed"), sealed.with(-1, (sealed.at(-1) as number) ^ 1));
    expect(await failureOf(openFile({ client: watched() }))).toBe("not_authentic");
    expect(files()).not.toContain("opened");
    const attributes = { enforcement_failure: "not_authentic" };
    expect(events).toMatchObject([{ event_type: "access", outcome: "failed", attributes }]);
  });

  test("an answer with a receipt of another log", async () => {
    const logKeys = [await stack.logKey("payroll-c")];
    expect(await failureOf(protectFile({ logKeys }))).toBe("unavailable");
    expect(files()).toEqual([]);
  });

  test.each<[string, (decision: Decision) => Decision]>([
    ["was another", (it) => ({ ...it, decisionId: "01890a5d-ac96-774b-bcce-b302099a8057" })],
    ["denied", (it) => ({ ...it, allow: true })],
    ["demands nothing", (it) => ({ ...it, obligations: [{ id: "evidence-within", parameters: { seconds: "30" } }] })],
  ])("an answer whose receipt shows that the decision %s", async (what, change) => {
    const logKeys = [await stack.logKey()];
    const client = watched(doctored(change));
    const labels = what === "denied" ? ["do-not-export"] : ["confidential"];
    expect(await failureOf(protectFile({ client, logKeys }, labels))).toBe("unavailable");
    expect(files()).toEqual([]);
  });

  test("obligations are met before anything is done, and only if their handler confirms it", async () => {
    const demanding = watched(
      doctored((it) => ({ ...it, obligations: [{ id: "tell", parameters: { whom: "owner" } }] })),
    );
    const met: unknown[] = [];
    for (const answer of [false, undefined, new Error("no")]) {
      const tell = () => {
        if (answer instanceof Error) throw answer;
        return answer as boolean;
      };
      expect(await failureOf(protectFile({ client: demanding, obligations: { tell } }))).toBe("not_permitted");
    }
    await protectFile({ client: demanding, obligations: { tell: (parameters) => met.push(parameters) > 0 } });
    expect(met).toEqual([{ whom: "owner" }]);
  });
});

describe("evidence that cannot be sent", () => {
  const offline = () => altered({ recordEvidence: noAnswer });

  test("withholds the plaintext, is kept, blocks later operations, and is sent once this is possible", async () => {
    await protectFile();
    expect(await failureOf(openFile({ client: offline() }))).toBe("unavailable");
    expect(files()).not.toContain("opened");
    expect(spool().length).toBeGreaterThan(0);
    expect(await failureOf(openFile({ client: offline() }))).toBe("evidence_overdue");
    await openFile();
    expect(spool()).toEqual([]);
  });

  test("may wait for the tolerated time, and its receipt is added later", async () => {
    let nowMs = Date.now();
    const tolerant = { evidenceToleranceMs: 60_000, now: () => nowMs };
    const outcome = await protectFile({ ...tolerant, client: offline() });
    expect(outcome).toMatchObject({ evidence: "pending" });
    expect((await openFile({ ...tolerant, client: offline() })).evidence).toBe("pending");
    const logKeys = [await stack.logKey()];
    expect(await verifyArtifact({ artifact: at("sealed"), logKeys })).toMatchObject({ isEvidencePending: true });
    nowMs += 60_001;
    const late = { input: at("sealed"), output: at("late"), purpose: "audit" };
    expect(await failureOf(enforcer({ ...tolerant, client: offline() }).open(late))).toBe("evidence_overdue");
    expect(await enforcer(tolerant).flush()).toEqual({ sent: 2, waiting: 0 });
    expect(await verifyArtifact({ artifact: at("sealed"), logKeys })).toMatchObject({ isEvidencePending: false });
  });

  test("is tolerated for the time of the decision, if that is shorter", async () => {
    let nowMs = Date.now();
    const now = () => nowMs;
    const bounded = altered({
      recordEvidence: noAnswer,
      planKeyAccess: async (question) => ({
        ...(await stack.platform().planKeyAccess(question)),
        obligations: [{ id: "evidence-within", parameters: { seconds: "30" } }],
      }),
    });
    expect((await protectFile({ client: bounded, now, evidenceToleranceMs: 3_600_000 })).evidence).toBe("pending");
    nowMs += 30_001;
    expect(await failureOf(openFile({ client: bounded, now }))).toBe("evidence_overdue");
  });

  test("is counted up to its last complete line", async () => {
    const tolerant = { evidenceToleranceMs: 60_000 };
    await protectFile({ ...tolerant, client: offline() });
    const path = at(join("spool", spool()[0] as string));
    const whole = readFileSync(path, "utf8");
    writeFileSync(path, `${whole}\n${whole.slice(0, 20)}`);
    expect(await enforcer(tolerant).flush()).toEqual({ sent: 1, waiting: 0 });
    const found = await verifyArtifact({ artifact: at("sealed"), logKeys: [await stack.logKey()] });
    expect(found).toMatchObject({ isEvidencePending: false });
    expect(spool()).toEqual([]);
  });

  test("blocks all operations if a file of the spool cannot be read", async () => {
    await protectFile();
    writeFileSync(join(at("spool"), `${"0".repeat(8)}-0000-4000-8000-${"0".repeat(12)}.json`), "{");
    expect(await failureOf(openFile())).toBe("evidence_overdue");
  });
});

test("if decisions read registered facts, a label left out still counts, and other principals are refused", async () => {
  const client = stack.platform("payroll-c");
  await protectFile({ client }, ["restricted"]);
  expect(await failureOf(openFile({ client }))).toBe("not_permitted");
  const stripped = { ...client, ...saying(client, { labels: [] }, "planProtection", "planKeyAccess") };
  expect(await failureOf(openFile({ client: stripped }))).toBe("not_permitted");
  expect(files()).not.toContain("opened");
  const rewrapped = { input: at("sealed"), output: at("rewrapped"), newKeyReference: otherKey.reference };
  expect(await failureOf(enforcer({ client: stack.platform("reports-c") }).rewrap(rewrapped))).toBe("not_permitted");
});

/** Questions that an intermediary may put in the place of the one that came. */
const others: Readonly<Record<string, object>> = {
  "another resource": { resource: { kind: "customer-record", id: "cust-1" } },
  "other labels": { labels: ["internal"] },
  "another purpose": { purpose: "payroll" },
  "other attributes": { attributes: { region: "us" } },
  "another workload": { workload: { application: "another" } },
  "another digest": { artifact_digest: `sha256:${"3d".repeat(32)}` },
};

describe("an intermediary with a token of the tenant", () => {
  test.each(Object.entries(others))("cannot answer with its own receipts for %s", async (_, other) => {
    const logKeys = [await stack.logKey()];
    const own = stack.platform();
    const calls: readonly Partial<Platform>[] = [
      saying(own, other, "planProtection"),
      saying(own, other, "planKeyAccess"),
      {
        registerArtifact: (registration, id, signal) =>
          own.registerArtifact({ ...registration, ...other }, `its-${id}`, signal),
      },
      { recordEvidence: (event, id, signal) => own.recordEvidence({ ...event, ...other }, `its-${id}`, signal) },
    ];
    for (const call of calls) {
      expect(await failureOf(protectFile({ client: altered(call), logKeys }, ["confidential"]))).toBe("unavailable");
      expect(files()).not.toContain("sealed");
      // The event is kept, for a platform that records it.
      await enforcer().flush();
    }
  });

  test("cannot replay a decision of an hour ago, or one for another workload", async () => {
    const logKeys = [await stack.logKey()];
    const now = () => Date.now() + 3_600_000;
    expect(await failureOf(protectFile({ logKeys, now }))).toBe("unavailable");
    const caller = { tenantId: "tenant-a", principalId: "another-principal" };
    expect(await failureOf(protectFile({ logKeys, caller }))).toBe("unavailable");
    const ownCaller = { tenantId: "tenant-a", principalId: "payroll-service" };
    await enforcer().flush();
    await protectFile({ logKeys, caller: ownCaller });
  });

  test("cannot change the instructions of an answer", async () => {
    const logKeys = [await stack.logKey()];
    for (const calls of [
      planned({ keyTransport: "wrapped_key_reference" }),
      planned({ library: "another" }),
      planned({ handlingMode: "another" }),
      doctored(({ receipt, ...decision }) => {
        const { leaf: _, opening: __, record: ___, ...brief } = receipt ?? {};
        return { ...decision, receipt: brief };
      }),
    ])
      expect(await failureOf(protectFile({ client: altered(calls), logKeys }))).toBe("unavailable");
  });
});

describe("key files", () => {
  test("are created once, readable by their owner only, and read", async () => {
    await createKeyFile(at("key"), "local-file-key");
    expect(statSync(at("key")).mode & 0o777).toBe(0o600);
    expect(await failureOf(createKeyFile(at("key")))).toBe("exists");
    expect((await keyFile(at("key"))).reference).toBe("local-file-key");
  });

  test("that others can read, or that hold no key, are refused", async () => {
    await createKeyFile(at("key"));
    chmodSync(at("key"), 0o640);
    expect(await failureOf(keyFile(at("key")))).toBe("invalid");
    for (const text of ["", "{}", '{"kty":"oct","kid":"k","k":"AAAA"}', "null"]) {
      writeFileSync(at("none"), text, { mode: 0o600 });
      expect(await failureOf(keyFile(at("none")))).toBe("invalid");
    }
    expect(await failureOf(keyFile(at("missing")))).toBe("invalid");
    expect(await failureOf(keyFile(at("")))).toBe("invalid");
  });
});

const newSigner = () =>
  localSigningKey("local-signer", { ...generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" }) });
const signer = newSigner();

test("a signature does not verify with other data, another key or the receipts of another signature", async () => {
  const logKeys = [await stack.logKey()];
  const named = {
    profile: "detached_signature",
    input: at("plain"),
    output: at("sig"),
    resource,
    replace: true,
  } as const;
  const sign = () => enforcer({ keys: [signer] }).protect(named);
  await sign();
  const receipts = readFileSync(receiptsPathOf(at("sig")));
  const verify = (more: object = {}) => verifyArtifact({ artifact: at("sig"), logKeys, ...more });
  await verify({ data: at("plain"), keys: [signer] });
  writeFileSync(at("other"), "other data");
  expect(await failureOf(verify({ data: at("other") }))).toBe("not_authentic");
  expect(await failureOf(verify({ keys: [key] }))).toBe("invalid");
  expect(await failureOf(verify({ keys: [newSigner()] }))).toBe("not_authentic");
  await sign();
  writeFileSync(receiptsPathOf(at("sig")), receipts);
  expect(await failureOf(verify())).toBe("not_authentic");
});

test("everything sealed opens and verifies", async () => {
  const logKeys = [await stack.logKey()];
  writeFileSync(at("plain"), "text");
  const subject = enforcer({ keys: [key, otherKey, signer], logKeys });
  const text = fc.string({ unit: "grapheme", minLength: 1, maxLength: 20 });
  const members = { kind: text, id: text, mime_type: text, mimeType: text, more: fc.anything() };
  const given = fc.record({
    resource: fc.record(members, { requiredKeys: ["kind"] }),
    labels: fc.array(text, { maxLength: 3 }),
    profile: fc.constantFrom("envelope", "detached_signature"),
  });
  let sealed = 0;
  const property = fc.asyncProperty(given, async ({ profile, ...described }) => {
    const named = { profile, output: at("sealed"), replace: true, purpose: "audit" } as const;
    try {
      await subject.protect({ ...named, ...described, input: at("plain") });
    } catch (error) {
      // What the service does not take is asked about, and not sealed.
      expect(error).toMatchObject({ failure: expect.stringMatching(/unavailable|not_permitted/) });
      return;
    }
    sealed++;
    expect(await verifyArtifact({ artifact: at("sealed"), logKeys })).toMatchObject({ operation: "protect" });
    const signature = profile === "envelope" ? undefined : at("sealed");
    const opening = { input: at(signature === undefined ? "sealed" : "plain"), ...(signature && { signature }) };
    await subject.open({ ...opening, output: at("opened"), replace: true, purpose: "audit" });
    expect(readFileSync(at("opened"), "utf8")).toBe("text");
    const newKeyReference = profile === "envelope" ? otherKey.reference : signer.reference;
    await subject.rewrap({ ...named, input: at("sealed"), output: at("again"), newKeyReference });
    expect(await verifyArtifact({ artifact: at("again"), logKeys })).toMatchObject({ operation: "rewrap" });
  });
  await fc.assert(property, { numRuns: draws(6, 25) });
  expect(sealed).toBeGreaterThan(2);
});
