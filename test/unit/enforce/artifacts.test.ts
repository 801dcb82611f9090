/** Artifacts that must open, evidence that must leave, and what a disk, a stream or another writer does meanwhile. */
import { createHash } from "node:crypto";
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import {
  createEnforcer,
  createKeyFile,
  EnforcementError,
  type EnforcerOptions,
  localKey,
  localSigningKey,
  type Outcome,
  type ReceiptsFile,
  type Resource,
  receiptsPathOf,
} from "../../../clients/typescript/src/enforce/index.ts";
import { draws } from "../../harness/draws.ts";
import { folderForFile } from "../../harness/folder.ts";
import {
  failureOf as failure,
  type PermissivePlatform,
  permissivePlatform,
} from "../../harness/permissive-platform.ts";

/** Paths on a disk that is full: files on it keep what they have, and no new one is made. */
const disk = vi.hoisted(() => ({ isFull: (_: string): boolean => false }));
vi.mock("node:fs/promises", async (original) => {
  const real = await original<typeof import("node:fs/promises")>();
  const open: typeof real.open = (path, flags, ...others) => {
    if (flags !== undefined && /[wa]/.test(String(flags)) && disk.isFull(String(path)))
      return Promise.reject(
        Object.assign(new Error(`ENOSPC: no space left on device, open '${path}'`), { errno: -28, code: "ENOSPC" }),
      );
    return real.open(path, flags, ...others);
  };
  return { ...real, open };
});

const root = folderForFile("artifacts");
let folder: string;
let platform: PermissivePlatform;
const at = (name: string) => join(folder, name);
beforeEach(() => {
  folder = mkdtempSync(join(root, "test-"));
  platform = permissivePlatform();
  writeFileSync(at("plain"), "text");
});
afterEach(() => {
  disk.isFull = () => false;
});

const keys = [localKey("local-one", Buffer.alloc(32, 1)), localKey("local-two", Buffer.alloc(32, 2))];
const enforcer = (options: Partial<EnforcerOptions> = {}) =>
  createEnforcer({
    ...{ client: platform, workload: { application: "test" }, keys, spoolDirectory: at("spool") },
    ...options,
  });
const resource = { kind: "test" };
function headerOf(path: string) {
  const bytes = readFileSync(path);
  return JSON.parse(bytes.subarray(29, 29 + bytes.readUInt32BE(25)).toString());
}

const text = fc.string({ unit: "binary", maxLength: 8 });
const anything = fc.oneof({ weight: 4, arbitrary: text }, { weight: 1, arbitrary: fc.anything({ maxDepth: 1 }) });
const members = { kind: anything, id: anything, mime_type: anything, mimeType: anything, extra: anything };
const given = fc.record({
  resource: fc.oneof(
    { weight: 8, arbitrary: fc.record(members, { requiredKeys: ["kind"] }) },
    { weight: 1, arbitrary: fc.anything({ maxDepth: 2 }) },
  ),
  labels: fc.oneof({ weight: 8, arbitrary: fc.array(anything, { maxLength: 2 }) }, { weight: 1, arbitrary: anything }),
});

test("everything sealed opens: other resources and labels are refused before anything is asked", async () => {
  let sealed = 0;
  await fc.assert(
    fc.asyncProperty(given, fc.boolean(), async (request, isSigned) => {
      const profile = isSigned ? "detached_signature" : "envelope";
      const signer = localSigningKey("local-signer", signingJwk);
      const subject = enforcer({ keys: [...keys, signer] });
      const named = { input: at("plain"), output: at("sealed"), profile, replace: true } as const;
      let outcome: Outcome;
      try {
        outcome = await subject.protect({ ...named, ...(request as { resource: Resource; labels: string[] }) });
      } catch (error) {
        expect(error).toMatchObject({ failure: "invalid" });
        return;
      }
      sealed++;
      const opening = isSigned ? { input: at("plain"), signature: at("sealed") } : { input: at("sealed") };
      const opened = await subject.open({ ...opening, output: at("opened"), replace: true });
      expect(opened.artifactDigest).toBe(outcome.artifactDigest);
      expect(readFileSync(at("opened"), "utf8")).toBe("text");
      if (isSigned) return;
      expect(["id", "kind", "mime_type"]).toEqual(
        expect.arrayContaining(Object.keys(headerOf(at("sealed")).binding.resource)),
      );
      await subject.rewrap({
        ...named,
        profile,
        input: at("sealed"),
        output: at("again"),
        newKeyReference: "local-two",
      });
      await subject.open({ input: at("again"), output: at("opened"), replace: true });
    }),
    {
      numRuns: draws(50, 150),
      examples: [[{ resource: { kind: "k", mimeType: "text/plain", more: 1 }, labels: [] }, false]],
    },
  );
  expect(sealed).toBeGreaterThan(3);
});

const signingJwk = {
  kty: "OKP",
  crv: "Ed25519",
  d: "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A",
  x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
};

test("a resource in the spelling of messages is the same one, and its id is text or absent", async () => {
  const message = { kind: "k", id: null, mimeType: "text/plain", $typeName: "x" } as unknown as Resource;
  await enforcer().protect({ input: at("plain"), output: at("sealed"), resource: message });
  expect(headerOf(at("sealed")).binding.resource).toEqual({ kind: "k", mime_type: "text/plain" });
  const numbered = {
    input: at("plain"),
    output: at("other"),
    resource: { kind: "k", id: 8841 } as unknown as Resource,
  };
  const asked = vi.spyOn(platform, "planProtection");
  expect(await failure(enforcer().protect(numbered))).toBe("invalid");
  expect(asked).not.toHaveBeenCalled();
  const expected = { input: at("sealed"), output: at("opened"), resource: { ...message, mimeType: "a/b" } as Resource };
  expect(await failure(enforcer().open(expected))).toBe("invalid");
});

test("labels are a list: a text is not split into letters", async () => {
  const request = { input: at("plain"), output: at("sealed"), resource, labels: "restricted" as unknown as string[] };
  expect(await failure(enforcer().protect(request))).toBe("invalid");
  await enforcer().protect({ ...request, labels: ["restricted"] });
  for (const operation of ["open", "rewrap"] as const) {
    const other = { ...request, input: at("sealed"), output: at("other"), newKeyReference: "local-two" };
    expect(await failure(enforcer()[operation](other))).toBe("invalid");
  }
});

test("what is known of a deployment is kept for five minutes, also if the machine's clock is set back", async () => {
  let [wallMs, elapsedMs] = [Date.now(), 0];
  const elapsed = vi.spyOn(performance, "now").mockImplementation(() => elapsedMs);
  const deployment = vi.fn(platform.deployment);
  const { protect } = enforcer({ client: { ...platform, deployment }, now: () => wallMs });
  const request = { input: at("plain"), output: at("sealed"), resource, replace: true };
  for (const [passedMs, asked] of [
    [0, 1],
    [299_000, 1],
    [2_000, 2],
  ] as const) {
    elapsedMs += passedMs;
    wallMs -= 3_600_000;
    await protect(request);
    expect(deployment).toHaveBeenCalledTimes(asked);
  }
  elapsed.mockRestore();
});

test("a rewrap leaves out receipts with which its own would be too large to read", async () => {
  const rewrap = (input: string, output: string) =>
    enforcer().rewrap({ input: at(input), output: at(output), newKeyReference: "local-two" });
  await enforcer().protect({ input: at("plain"), output: at("sealed"), resource });
  expect((await rewrap("sealed", "small")).receipts.previous?.operation).toBe("protect");
  const path = receiptsPathOf(at("sealed"));
  writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, "utf8")), more: "x".repeat(3_000_000) }));
  expect((await rewrap("sealed", "large")).receipts.previous).toBeUndefined();
});

test("of concurrent writers on one output one wins, with its own receipts", async () => {
  for (let race = 0; race < 25; race++) {
    const output = at(`sealed-${race}`);
    const replace = race % 5 === 4;
    const requests = Array.from({ length: 3 }, () => ({ input: at("plain"), output, resource, replace }));
    const ended = await Promise.allSettled(requests.map((request) => enforcer().protect(request)));
    const won = ended.filter(({ status }) => status === "fulfilled");
    expect(won.length).toBe(replace ? 3 : 1);
    const receipts = JSON.parse(readFileSync(receiptsPathOf(output), "utf8")) as ReceiptsFile;
    const digest = createHash("sha256").update(readFileSync(output)).digest("hex");
    expect(receipts.artifact_digest, `race ${race}`).toBe(`sha256:${digest}`);
  }
  expect(readdirSync(folder).filter((name) => name.startsWith("."))).toEqual([]);
});

describe("evidence of work that ends with a full disk", () => {
  const offline = () => Promise.reject(new Error("offline"));
  const settleOnFullDisk = async (isOnline: boolean) => {
    const client = permissivePlatform();
    client.registerArtifact = async () => {
      disk.isFull = (path) => path.includes("/spool/");
      return { accepted: true, warnings: [] };
    };
    if (!isOnline) client.recordEvidence = offline;
    else client.recordEvidence = platform.recordEvidence;
    const ended = await failure(enforcer({ client }).protect({ input: at("plain"), output: at("sealed"), resource }));
    disk.isFull = () => false;
    return ended;
  };

  test("is sent at once if possible", async () => {
    expect(await settleOnFullDisk(true)).toBe("io_failed");
    expect([...platform.events.values()].map(({ outcome }) => outcome)).toEqual(["aborted"]);
    expect(readdirSync(at("spool"))).toEqual([]);
  });

  test("blocks later operations until any process has sent it", async () => {
    expect(await settleOnFullDisk(false)).toBe("io_failed");
    const cut = { ...platform, recordEvidence: offline };
    expect(await failure(enforcer({ client: cut }).flush())).toBe("evidence_overdue");
    const request = { input: at("plain"), output: at("next"), resource };
    expect(await failure(enforcer({ client: cut }).protect(request))).toBe("evidence_overdue");
    expect(await enforcer().flush()).toEqual({ sent: 1, waiting: 0 });
    expect(readdirSync(at("spool"))).toEqual([]);
    await enforcer().protect(request);
  });
});

test("a recorded event whose receipt cannot be written waits until it is due, and then stops nothing", async () => {
  let nowMs = Date.now();
  const tolerant = { evidenceToleranceMs: 60_000, now: () => nowMs };
  const cut = { ...platform, recordEvidence: () => Promise.reject(new Error("offline")) };
  const request = { input: at("plain"), output: at("sealed"), resource };
  expect(await enforcer({ ...tolerant, client: cut }).protect(request)).toMatchObject({ evidence: "pending" });
  const client: PermissivePlatform = {
    ...platform,
    recordEvidence: async (event, id) => ({ ...(await platform.recordEvidence(event, id)), receipt: {} }),
  };
  disk.isFull = (path) => path.includes("sealed.receipts.json");
  expect(await enforcer({ ...tolerant, client }).flush()).toEqual({ sent: 0, waiting: 1 });
  nowMs += 60_001;
  expect(await enforcer({ ...tolerant, client }).flush()).toEqual({ sent: 1, waiting: 0 });
  expect(readdirSync(at("spool"))).toEqual([]);
  expect(platform.events.size).toBe(1);
});

describe("a failing disk or stream is not reported as a mistake of the caller", () => {
  test("a full disk, of the output or of the spool", async () => {
    for (const full of ["sealed", "spool"]) {
      disk.isFull = (path) => path.includes(full);
      const request = { input: at("plain"), output: at("sealed"), resource };
      expect(await failure(enforcer().protect(request)), full).toBe("io_failed");
      disk.isFull = () => false;
    }
    expect(await failure(enforcer().protect({ input: at("plain"), output: at("no/such"), resource }))).toBe("invalid");
  });

  test("an output that fails, at any write and after the last, or is closed", async () => {
    const input = at("plain");
    writeFileSync(input, Buffer.alloc(20_000));
    for (let breaksAt = 0; breaksAt < 6; breaksAt++) {
      let writes = 0;
      const output = new Writable({
        highWaterMark: 1_000_000,
        write: (_piece, _encoding, done) => setImmediate(done, writes++ === breaksAt ? new Error("EPIPE") : undefined),
      });
      const work = enforcer().protect({ input, output, resource, aead: "AES256_GCM_HKDF_4KB" });
      expect(await failure(work), `write ${breaksAt}`).toBe("io_failed");
    }
    const closed = new Writable({ write: (_piece, _encoding, done) => done() }).destroy();
    expect(await failure(enforcer().protect({ input, output: closed, resource }))).toBe("io_failed");
  });

  test("an input that fails", async () => {
    const input = () =>
      Readable.from(
        (async function* () {
          yield Buffer.from("text");
          throw new Error("connection reset");
        })(),
      );
    const output = at("sealed");
    const request = { output, resource, newKeyReference: "local-two" };
    for (const operation of ["protect", "open", "rewrap"] as const)
      expect(await failure(enforcer()[operation]({ ...request, input: input() })), operation).toBe("io_failed");
  });
});

test("a stream gets no listener for a segment, and keeps none", async () => {
  writeFileSync(at("plain"), Buffer.alloc(400_000));
  await enforcer().protect({ input: at("plain"), output: at("sealed"), resource, aead: "AES256_GCM_HKDF_4KB" });
  const output = new Writable({ highWaterMark: 1, write: (_piece, _encoding, done) => void setImmediate(done) });
  const listeners = () => output.eventNames().reduce((sum, name) => sum + output.listenerCount(name), 0);
  const before = listeners();
  let most = 0;
  const onProgress = () => {
    most = Math.max(most, listeners());
  };
  const watched = output.write.bind(output);
  output.write = ((...parameters: Parameters<typeof watched>) => {
    onProgress();
    return watched(...parameters);
  }) as typeof output.write;
  await enforcer().open({ input: at("sealed"), output });
  expect(most).toBeLessThanOrEqual(before + 2);
  expect(listeners()).toBe(before);
});

test.each(["777", "770", "702", "1777"])(
  "a spool that other users may write to (mode %s) is not used",
  async (mode) => {
    mkdirSync(at("spool"));
    chmodSync(at("spool"), Number.parseInt(mode, 8));
    const request = { input: at("plain"), output: at("sealed"), resource };
    expect(await failure(enforcer().protect(request))).toBe("invalid");
    expect(await failure(enforcer().open({ input: Readable.from([Buffer.from("x")]), output: at("opened") }))).toBe(
      "invalid",
    );
    expect(readdirSync(at("spool"))).toEqual([]);
    // What others put there is not sent.
    const id = "00000000-0000-4000-8000-000000000000";
    const event = { event_type: "protect", outcome: "completed", occurred_at: "2026-01-01T00:00:00Z" };
    writeFileSync(
      at(`spool/${id}.json`),
      `${JSON.stringify({ version: 1, id, due_at: "2026-01-01T00:00:00Z", event })}\n`,
    );
    expect(await failure(enforcer().flush())).toBe("invalid");
    expect(platform.events.size).toBe(0);
    chmodSync(at("spool"), 0o755);
    await enforcer().protect(request);
  },
);

const unseen = [
  ...Array(0x20).keys(),
  ...Array.from({ length: 0x21 }, (_, i) => 0x7f + i),
  0x202a,
  0x202e,
  0x2066,
  0x2069,
];

test("a key reference with a control character is refused: for a key, in a key file, and in a header", async () => {
  for (const code of unseen) {
    const reference = `local-${String.fromCharCode(code)}`;
    expect(() => enforcer({ keys: [localKey(reference, Buffer.alloc(32))] }), `${code}`).toThrow(EnforcementError);
    expect(await failure(createKeyFile(at("key"), reference))).toBe("invalid");
    const header = { binding: binding(), key: { decision_id: "d", provider: "local", reference, wrapped: "w" } };
    const bytes = Buffer.from(JSON.stringify(header));
    const length = Buffer.alloc(4);
    length.writeUInt32BE(bytes.length);
    writeFileSync(at("sealed"), Buffer.concat([Buffer.from("svc-platform-envelope/v1\n"), length, bytes]));
    expect(await failure(enforcer().open({ input: at("sealed"), output: at("opened") }))).toBe("not_authentic");
  }
});

const binding = () => ({
  aead: "AES256_GCM_HKDF_4KB",
  decision_id: "d",
  labels: [],
  policy_revision: "r",
  resource: { kind: "k" },
});

test("an error's message cannot control the terminal, whatever a peer sent", async () => {
  const hostile = String.fromCharCode(...unseen);
  for (const decision of [{ allow: false, reasons: [hostile] }, { obligations: [{ id: hostile, parameters: {} }] }]) {
    const client = permissivePlatform();
    const plan = client.planProtection;
    client.planProtection = async (question) => ({ ...(await plan(question)), ...decision });
    const work = enforcer({ client }).protect({ input: at("plain"), output: at("sealed"), resource });
    const error: Error = await work.then(
      () => expect.unreachable(),
      (error) => error,
    );
    for (const character of hostile) expect(error.message).not.toContain(character);
    expect(error.message).toContain("\\u001b");
  }
});
