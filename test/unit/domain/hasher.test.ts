import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { Worker } from "node:worker_threads";
import fc from "fast-check";
import { afterEach, expect, test } from "vitest";
import { parseTenantId } from "../../../src/base/ids.ts";
import { createArtifactHasher, maxObjectBytes, type ThreadedHasher } from "../../../src/domain/artifact-hasher.ts";
import { hashNames } from "../../../src/ledger/artifacts/digest.ts";
import { must } from "./world.ts";

const tenant = must(parseTenantId("tenant-a"));
const other = must(parseTenantId("tenant-b"));
const open: ThreadedHasher[] = [];

function hasher(...options: Parameters<typeof createArtifactHasher>): ThreadedHasher {
  const made = createArtifactHasher(...options);
  open.push(made);
  return made;
}

afterEach(async () => {
  for (const made of open.splice(0)) await made.close();
});

const live = () => new AbortController().signal;

test("hashes are those of the decoded bytes", async () => {
  const one = hasher();
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ minLength: 1 }), fc.subarray([...hashNames]), async (bytes, names) => {
      const text = Buffer.from(bytes).toString("base64");
      const { sizeBytes, digests } = await one.digest(tenant, text, names, live());
      expect(sizeBytes).toBe(bytes.length);
      expect([...digests]).toEqual(names.map((name) => [name, createHash(name).update(bytes).digest("hex")]));
    }),
  );
});

test.each([
  "a",
  "ab",
  "abc",
  "YQ",
  "YQ=",
  "YR==",
  "YQ==YQ==",
  "YWE=\n",
  " YWE=",
  "YW E=",
  "_-8=",
  "YQ==é",
  "=",
  "!",
  "data:;base64,YQ==",
  // Whose low byte is a letter of base64.
  "\u0159QQQ",
  // Padding in the midst of what is decoded piece by piece.
  `${"A".repeat(262_140)}YQ==${"A".repeat(4)}`,
])("%j is not canonical base64", async (text) => {
  const refused = { reason: "invalid_request", details: { violations: [{ field: "artifact_object_b64" }] } };
  await expect(hasher().digest(tenant, text, ["sha256"], live())).rejects.toMatchObject(refused);
});

test("8 MiB are taken, one byte more is refused", async () => {
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

test("a thread that crashes costs its own job only; the next starts another", async () => {
  let started = 0;
  const crash =
    "const { parentPort } = require('node:worker_threads'); parentPort.on('message', () => { throw new Error('lost'); });";
  const one = hasher({
    startWorker: () => {
      started++;
      if (started === 1) return new Worker(crash, { eval: true });
      return new Worker(new URL("../../../src/domain/artifact-hasher-worker.ts", import.meta.url));
    },
  });
  const [first, second] = await Promise.allSettled([
    one.digest(tenant, "YQ==", ["sha256"], live()),
    one.digest(tenant, "YQ==", ["sha256"], live()),
  ]);
  expect(first).toMatchObject({ status: "rejected", reason: { reason: "internal" } });
  expect(second).toMatchObject({ status: "fulfilled", value: { sizeBytes: 1 } });
  expect(started).toBe(2);
});

test("a thread that cannot be started fails the jobs, not the process", async () => {
  const one = hasher({
    startWorker: () => {
      throw new Error("no more threads");
    },
  });
  const jobs = Array.from({ length: 100 }, () => one.digest(tenant, "YQ==", ["sha256"], live()));
  for (const result of await Promise.allSettled(jobs)) expect(result).toMatchObject({ reason: { reason: "internal" } });
});

/** A thread that answers nothing, so that what waits stays where it is. */
const idle = () => new Worker("require('node:worker_threads').parentPort.on('message', () => {});", { eval: true });

test("what waits is bounded, for each tenant and over all, and is free again once it is done", async () => {
  const one = hasher({ maxTenantPendingChars: 8, maxPendingChars: 12, startWorker: idle });
  const controller = new AbortController();
  const digest = (by: typeof tenant, signal = live()) => one.digest(by, "YWFh", ["sha256"], signal);
  const held = [digest(tenant), digest(tenant, controller.signal)];
  const settled = Promise.allSettled(held);
  await expect(digest(tenant)).rejects.toMatchObject({ reason: "overloaded", details: { retryAfterSeconds: 1 } });
  const others = Promise.allSettled([digest(other)]);
  await expect(digest(other)).rejects.toMatchObject({ reason: "overloaded" });
  controller.abort(new Error("gone"));
  const again = Promise.allSettled([digest(tenant)]);
  await one.close();
  const results = [...(await settled), ...(await others), ...(await again)];
  expect(results.map((result) => (result.status === "rejected" ? result.reason.message : ""))).toEqual([
    "the service is stopping",
    "gone",
    "the service is stopping",
    "the service is stopping",
  ]);
  await expect(digest(tenant)).rejects.toMatchObject({ reason: "internal" });
});

test("a caller that goes away is answered at once, its job waiting or at work", async () => {
  const one = hasher({ startWorker: idle });
  for (const _ of ["at work", "waiting"]) {
    const controller = new AbortController();
    const job = one.digest(tenant, "YQ==", ["sha256"], controller.signal);
    controller.abort(new Error("gone"));
    await expect(job).rejects.toThrow("gone");
    await expect(one.digest(tenant, "YQ==", ["sha256"], controller.signal)).rejects.toThrow("gone");
    expect(one.waiting).toBe(0);
  }
});

test("work under way keeps the process alive, an idle thread does not", () => {
  const module = JSON.stringify(new URL("../../../src/domain/artifact-hasher.ts", import.meta.url));
  const program = `
    const { createArtifactHasher } = await import(${module});
    const { sizeBytes } = await createArtifactHasher().digest("t", "YQ==", ["sha256"], new AbortController().signal);
    console.log(sizeBytes);`;
  const output = execFileSync(process.execPath, ["-e", program], { encoding: "utf8" });
  expect(output).toBe("1\n");
});
