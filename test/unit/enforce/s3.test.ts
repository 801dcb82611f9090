/** Sealed objects in a bucket: what the bucket gets, and that nothing is there unless all was recorded. */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { PassThrough, Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import fc from "fast-check";
import { expect, test } from "vitest";
import { createEnforcer, localKey, type Outcome } from "../../../clients/typescript/src/enforce/index.ts";
import { type ObjectStore, sealedBucket } from "../../../clients/typescript/src/enforce/s3.ts";
import { stripLocator } from "../../../src/domain/registration.ts";
import { folderForFile } from "../../harness/folder.ts";
import { permissivePlatform } from "../../harness/permissive-platform.ts";

const folder = folderForFile("s3");
const resource = { kind: "test" };

/** A bucket in memory, and an enforcer in front of it. */
function bucketOf(changes: Partial<ObjectStore> = {}, upload?: () => Promise<never>) {
  const objects = new Map<string, Buffer>();
  const ranges: string[] = [];
  const found = (key: string) => objects.get(key) ?? Buffer.alloc(0);
  const store: ObjectStore = {
    headObject: async ({ Key }) => ({ ContentLength: found(Key).length, ETag: "one" }),
    async getObject({ Key, Range, IfMatch }) {
      if (Range === undefined) return { Body: Readable.from([found(Key)]) };
      expect(IfMatch).toBe("one");
      ranges.push(Range);
      const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(Range) ?? [];
      return { Body: Readable.from([found(Key).subarray(Number(first), Number(last) + 1)]) };
    },
    ...changes,
  };
  const platform = permissivePlatform();
  const options = { client: platform, workload: { application: "test" }, spoolDirectory: join(folder, "spool") };
  const enforcer = createEnforcer({ ...options, keys: [localKey("one", Buffer.alloc(32, 1))] });
  const bucket = sealedBucket({
    ...{ enforcer, store, bucket: "data" },
    upload: upload ?? (async ({ Key, Body }) => objects.set(Key, await buffer(Body))),
  });
  return { bucket, objects, platform, ranges };
}

async function plaintextOf(work: (output: PassThrough) => Promise<Outcome>) {
  const output = new PassThrough();
  const collected = buffer(output);
  await work(output);
  output.end();
  return collected;
}

test("an object is uploaded sealed, under its locator, and read back whole and in ranges", async () => {
  const { bucket, objects, platform, ranges } = bucketOf();
  const plain = randomBytes(20_000);
  const aead = "AES256_GCM_HKDF_4KB";
  const { artifactDigest } = await bucket.put("a/b", { input: Readable.from([plain]), resource, aead });
  expect(platform.registrations[0]?.artifact_locator).toBe("s3://data/a/b");
  expect(objects.get("a/b")?.includes(plain.subarray(0, 64))).toBe(false);
  expect((await plaintextOf((output) => bucket.get("a/b", { output }))).equals(plain)).toBe(true);
  const part = { offset: 9_000, length: 10, artifactDigest };
  const found = await plaintextOf((output) => bucket.getRange("a/b", { ...part, output }));
  expect(found.equals(plain.subarray(9_000, 9_010))).toBe(true);
  expect(ranges).toHaveLength(3);
});

test("no two objects of a bucket share the locator that is recorded", async () => {
  const { bucket, platform } = bucketOf();
  const recordedOf = async (key: string) => {
    await bucket.put(key, { input: Readable.from([Buffer.from("text")]), resource });
    const { artifact_locator: sent = "" } = platform.registrations.at(-1) ?? {};
    const recorded = stripLocator(sent);
    expect(recorded).toBe(sent);
    // The key can be read from it.
    expect(decodeURIComponent(recorded.slice("s3://data/".length))).toBe(key);
    return recorded;
  };
  const odd = [
    "a?1",
    "a?2",
    "a#1",
    "a%3F1",
    "a ",
    "a",
    "a\t",
    "/a",
    "//a",
    "x//u@a",
    "x//a",
    "c:/u@a",
    "c:/a",
    "b\\\\u@a",
  ];
  const locators = [];
  for (const key of odd) locators.push(await recordedOf(key));
  expect(new Set(locators).size).toBe(odd.length);
  const text = fc.string({
    unit: fc.constantFrom("a", "/", ":", "@", "%", "?", "#", "\\", " ", "\u00a0", "é", "4", "0"),
  });
  await fc.assert(
    fc.asyncProperty(text, async (key) => {
      await recordedOf(key);
    }),
    { numRuns: 50 },
  );
});

test("no object is left if its registration fails, and no work if the upload fails", async () => {
  const { bucket, objects, platform } = bucketOf();
  platform.registerArtifact = async () => ({ accepted: false, warnings: ["no"] });
  const put = bucket.put("a", { input: Readable.from([randomBytes(10)]), resource });
  await expect(put).rejects.toMatchObject({ failure: "not_permitted" });
  expect(objects.size).toBe(0);
  const failing = bucketOf({ getObject: async () => ({}) }, () => Promise.reject(new Error("no such bucket")));
  const input = Readable.from([randomBytes(10)]);
  await expect(failing.bucket.put("a", { input, resource })).rejects.toThrow("no such bucket");
  await expect(failing.bucket.get("a", { output: new PassThrough() })).rejects.toMatchObject({ failure: "io_failed" });
  expect(failing.platform.registrations).toEqual([]);
});

test("a store that sends another range than requested is refused", async () => {
  const sealed = bucketOf();
  const { artifactDigest } = await sealed.bucket.put("a", { input: Readable.from([randomBytes(9)]), resource });
  const whole = sealed.objects.get("a") as Buffer;
  const Body = () => Readable.from([whole]);
  const { bucket } = bucketOf({
    headObject: async () => ({ ContentLength: whole.length }),
    getObject: async () => ({ Body: Body() }),
  });
  const options = { offset: 0, length: 1, artifactDigest, output: new PassThrough() };
  await expect(bucket.getRange("a", options)).rejects.toMatchObject({
    failure: expect.stringMatching(/io_failed|not_authentic/),
  });
});
