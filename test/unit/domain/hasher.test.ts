import { createHash } from "node:crypto";
import fc from "fast-check";
import { afterEach, expect, test } from "vitest";
import { parseTenantId } from "../../../src/base/ids.ts";
import { createArtifactHasher, maxObjectBytes, type QueuedHasher } from "../../../src/domain/artifact-hasher.ts";
import { must } from "./world.ts";

const tenant = must(parseTenantId("tenant-a"));
const other = must(parseTenantId("tenant-b"));
const open: QueuedHasher[] = [];

function hasher(...options: Parameters<typeof createArtifactHasher>): QueuedHasher {
  const made = createArtifactHasher(...options);
  open.push(made);
  return made;
}

afterEach(() => {
  for (const made of open.splice(0)) made.close();
});

const live = () => new AbortController().signal;

const hashes = ["md5", "sha256", "sha512-256", "sha3-512", "blake2b512"] as const;

test("hashes are those of the decoded bytes", async () => {
  const one = hasher();
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ minLength: 1 }), fc.subarray([...hashes]), async (bytes, names) => {
      const text = Buffer.from(bytes).toString("base64");
      const { sizeBytes, digests } = await one.digest(tenant, text, names, live());
      expect(sizeBytes).toBe(bytes.length);
      expect([...digests]).toEqual(names.map((name) => [name, createHash(name).update(bytes).digest("hex")]));
    }),
  );
});

test("text is decoded exactly if it is canonical base64", async () => {
  const one = hasher();
  const text = fc.string({ unit: fc.constantFrom(..."AQRYW+/_-= \n!é"), minLength: 1, maxLength: 9 });
  const odd = ["data:;base64,YQ==", "YQ==YQ==", "YR==", "\u0159QQQ", `${"A".repeat(65_532)}YQ==AAAA`];
  const refused = { reason: "invalid_request", details: { violations: [{ field: "artifact_object_b64" }] } };
  await fc.assert(
    fc.asyncProperty(text, async (sent) => {
      const digested = one.digest(tenant, sent, ["sha256"], live());
      if (Buffer.from(sent, "base64").toString("base64") === sent) await digested;
      else await expect(digested).rejects.toMatchObject(refused);
    }),
    { examples: odd.map((one) => [one]) },
  );
});

test("8 MiB are accepted, one byte more is refused", async () => {
  const one = hasher();
  const whole = Buffer.alloc(maxObjectBytes, 7);
  const { sizeBytes, digests } = await one.digest(tenant, whole.toString("base64"), ["sha256"], live());
  expect(sizeBytes).toBe(maxObjectBytes);
  expect(digests.get("sha256")).toBe(createHash("sha256").update(whole).digest("hex"));
  for (const more of [1, 2, 3, 4]) {
    const text = Buffer.alloc(maxObjectBytes + more).toString("base64");
    await expect(one.digest(tenant, text, ["sha256"], live())).rejects.toMatchObject({
      details: { violations: [{ field: "artifact_object_b64", rule: "bytes.max_len" }] },
    });
  }
});

test("other work runs while a large object is hashed", async () => {
  let isDone = false;
  const text = Buffer.alloc(maxObjectBytes).toString("base64");
  const job = hasher()
    .digest(tenant, text, ["sha256"], live())
    .finally(() => {
      isDone = true;
    });
  for (let turn = 0; turn < 32; turn++) {
    await new Promise(setImmediate);
    expect(isDone).toBe(false);
  }
  await job;
});

test("queued work is bounded, for each tenant and in all, and freed once it is done", async () => {
  const one = hasher({ maxTenantPendingChars: 8, maxPendingChars: 12 });
  const digest = (by: typeof tenant, signal = live()) => one.digest(by, "YWFh", ["sha256"], signal);
  const controller = new AbortController();
  const calls = [digest(tenant), digest(tenant, controller.signal), digest(tenant), digest(other), digest(other)];
  const settled = Promise.allSettled(calls);
  controller.abort(new Error("gone"));
  const results = (await settled).map((result) => (result.status === "rejected" ? result.reason : undefined));
  const overloaded = { reason: "overloaded", details: { retryAfterSeconds: 1 } };
  expect(results).toMatchObject([undefined, { message: "gone" }, overloaded, undefined, overloaded]);
  expect(await Promise.all([digest(tenant), digest(tenant), digest(other)])).toHaveLength(3);
});

test("a hasher that closes refuses queued, running and new work", async () => {
  const one = hasher();
  const text = Buffer.alloc(maxObjectBytes).toString("base64");
  const jobs = [1, 2].map(() => one.digest(tenant, text, ["sha256"], live()));
  const settled = Promise.allSettled(jobs);
  one.close();
  const stopping = { reason: "internal", message: "the service is stopping" };
  for (const result of await settled) expect(result).toMatchObject({ status: "rejected", reason: stopping });
  await expect(one.digest(tenant, "YQ==", ["sha256"], live())).rejects.toMatchObject(stopping);
});

test("a caller that leaves is answered at once, with its job queued or running", async () => {
  const one = hasher();
  const text = Buffer.alloc(maxObjectBytes).toString("base64");
  const [first, second] = [new AbortController(), new AbortController()];
  const atWork = one.digest(tenant, text, ["sha256"], first.signal);
  const waits = one.digest(tenant, text, ["sha256"], second.signal);
  await new Promise(setImmediate);
  expect(one.waiting).toBe(1);
  for (const [job, controller] of [[waits, second] as const, [atWork, first] as const]) {
    controller.abort(new Error("gone"));
    await expect(job).rejects.toThrow("gone");
    await expect(one.digest(tenant, "YQ==", ["sha256"], controller.signal)).rejects.toThrow("gone");
  }
  expect(one.waiting).toBe(0);
});
