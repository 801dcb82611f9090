/** Ranges of sealed artifacts and sealed streams: what is read, what is proven, and what a reader who leaves stops. */
import { randomBytes } from "node:crypto";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { PassThrough, Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { Code, ConnectError } from "@connectrpc/connect";
import { beforeEach, describe, expect, test } from "vitest";
import {
  bytesSource,
  createEnforcer,
  createTdfKeyFile,
  EnforcementError,
  type EnforcementFailure,
  keyFile,
  localKey,
  type RandomAccess,
} from "../../../clients/typescript/src/enforce/index.ts";
import { PlatformError } from "../../../clients/typescript/src/index.ts";
import { folderForFile } from "../../harness/folder.ts";
import { failureOf, type PermissivePlatform, permissivePlatform } from "../../harness/permissive-platform.ts";

const folder = folderForFile("ranges");
const resource = { kind: "test", id: "one" };
let platform: PermissivePlatform;
await createTdfKeyFile(join(folder, "tdf.key"), "https://kas.example.com", "tdf-key");
const keys = [localKey("local-one", Buffer.alloc(32, 1)), await keyFile(join(folder, "tdf.key"))];
beforeEach(() => {
  platform = permissivePlatform();
});
const enforcer = () =>
  createEnforcer({
    ...{ client: platform, workload: { application: "test" }, keys, spoolDirectory: join(folder, "spool") },
    attributeNamespace: "example.com",
  });
const sealOptions = { aead: "AES256_GCM_HKDF_4KB", resource } as const;
type Profile = "envelope" | "tdf";

async function seal(plain: Uint8Array, profile: Profile = "envelope") {
  const { readable, outcome } = enforcer().protectStream({ ...sealOptions, profile, input: Readable.from([plain]) });
  const bytes = await buffer(readable);
  return { bytes, profile, artifactDigest: (await outcome).artifactDigest };
}
type Sealed = Awaited<ReturnType<typeof seal>>;

async function read(sealed: Sealed, offset: number, length: number, options: { input?: RandomAccess } = {}) {
  const output = new PassThrough();
  const found = buffer(output);
  const { bytes, ...others } = sealed;
  await enforcer().openRange({ ...others, input: bytesSource(bytes), output, offset, length, ...options });
  output.end();
  return found;
}
const first = 4_096 - 40 - 16;
const other = 4_096 - 16;
const tdfSegment = 2_097_152;

describe.each([
  ["envelope", [0, 1, first - 1, first, first + 1, first + other, first + 2 * other + 7]],
  ["tdf", [0, 1, tdfSegment, 2 * tdfSegment + 3]],
] as const)("with profile %s", (profile, sizes) => {
  test.each(sizes)("ranges of %i bytes equal those of the plaintext", async (size) => {
    const plain = randomBytes(size);
    const sealed = await seal(plain, profile);
    const edges = profile === "tdf" ? [tdfSegment, 2 * tdfSegment] : [first, first + other];
    const offsets = [0, 1, ...edges.flatMap((edge) => [edge - 1, edge]), size - 1, size, size + 5];
    for (const offset of new Set(offsets.filter((at) => at >= 0)))
      for (const length of [0, 1, 2, other + 1, size + 1])
        expect((await read(sealed, offset, length)).equals(plain.subarray(offset, offset + length))).toBe(true);
  });

  test("a range needs whole numbers and the right profile", async () => {
    const sealed = await seal(randomBytes(10), profile);
    for (const [offset, length] of [
      [-1, 1],
      [0, -1],
      [0.5, 1],
      [0, Number.NaN],
      [Number.MAX_SAFE_INTEGER, 2],
    ] as const)
      expect(await failureOf(read(sealed, offset, length))).toBe("invalid");
    const wrong = profile === "tdf" ? "envelope" : "tdf";
    expect(await failureOf(read({ ...sealed, profile: wrong }, 0, 1))).toBe("not_authentic");
  });

  test("nothing is released without permission, and another resource is refused", async () => {
    const sealed = await seal(randomBytes(10), profile);
    const plan = platform.planProtection;
    platform.planProtection = async (question) => ({ ...(await plan(question)), allow: false });
    expect(await failureOf(read(sealed, 0, 1))).toBe("not_permitted");
    platform.planProtection = plan;
    const input = bytesSource(sealed.bytes);
    const request = { ...sealed, input, output: new PassThrough(), offset: 0, length: 1 };
    expect(await failureOf(enforcer().openRange({ ...request, resource: { kind: "other" } }))).toBe("invalid");
  });

  test("a flipped bit of a segment is refused if the range touches it", async () => {
    const size = profile === "tdf" ? 2 * tdfSegment + 3 : first + 2 * other;
    const plain = randomBytes(size);
    const sealed = await seal(plain, profile);
    const step = profile === "tdf" ? tdfSegment + 28 : 4_096;
    const changed = Buffer.from(sealed.bytes);
    const place = profile === "tdf" ? 100 + step : sealed.bytes.length - 4_096 - 100;
    changed[place] = (changed[place] as number) ^ 1;
    const inMiddle = profile === "tdf" ? tdfSegment + 10 : first + 10;
    expect(await failureOf(read({ ...sealed, bytes: changed }, inMiddle, 1))).toBe("not_authentic");
    expect((await read({ ...sealed, bytes: changed }, 0, 5)).equals(plain.subarray(0, 5))).toBe(true);
  });
});

describe("segments of an envelope", () => {
  const plain = randomBytes(first + 3 * other);
  const headerOf = ({ bytes }: Sealed) => 29 + bytes.readUInt32BE(25);
  const segmentAt = (sealed: Sealed, i: number) => headerOf(sealed) + i * 4_096;

  test("that change places are refused", async () => {
    const sealed = await seal(plain);
    const bytes = Buffer.from(sealed.bytes);
    sealed.bytes.copy(bytes, segmentAt(sealed, 1), segmentAt(sealed, 2), segmentAt(sealed, 3));
    sealed.bytes.copy(bytes, segmentAt(sealed, 2), segmentAt(sealed, 1), segmentAt(sealed, 2));
    for (const offset of [first, first + other])
      expect(await failureOf(read({ ...sealed, bytes }, offset, 10))).toBe("not_authentic");
  });

  test("of another envelope are refused, with and without its stream header", async () => {
    const [sealed, stranger] = [await seal(plain), await seal(plain)];
    for (const start of [segmentAt(sealed, 0), segmentAt(sealed, 1)]) {
      const bytes = Buffer.concat([sealed.bytes.subarray(0, start), stranger.bytes.subarray(start)]);
      expect(await failureOf(read({ ...sealed, bytes }, first, 10))).toBe("not_authentic");
    }
  });

  test("that are cut off fail every range that ends behind the data", async () => {
    const sealed = await seal(plain);
    for (const cut of [segmentAt(sealed, 3), segmentAt(sealed, 3) + 1, segmentAt(sealed, 2) + 100]) {
      const bytes = sealed.bytes.subarray(0, cut);
      expect(await failureOf(read({ ...sealed, bytes }, plain.length - 1, 1))).toBe("not_authentic");
      expect(await failureOf(read({ ...sealed, bytes }, 0, plain.length))).toBe("not_authentic");
      expect(await failureOf(read({ ...sealed, bytes }, plain.length * 2, 1))).toBe("not_authentic");
    }
  });

  test("are read only if the range needs them", async () => {
    const sealed = await seal(plain);
    const reads: [number, number][] = [];
    const { sizeBytes, read: readBytes } = bytesSource(sealed.bytes);
    const input = {
      sizeBytes,
      read: (at: number, length: number) => {
        reads.push([at, length]);
        return readBytes(at, length);
      },
    };
    await read(sealed, first + 2 * other + 5, 10, { input });
    expect(reads.filter(([at]) => at > 4_096)).toEqual([[segmentAt(sealed, 3), 4_096]]);
    const short = { sizeBytes, read: async (at: number, length: number) => (await readBytes(at, length)).subarray(1) };
    expect(await failureOf(read(sealed, 0, 1, { input: short }))).toBe("not_authentic");
    const broken = { sizeBytes, read: () => Promise.reject(new Error("gone")) };
    expect(await failureOf(read(sealed, 0, 1, { input: broken }))).toBe("io_failed");
  });

  test("belong to a header with its decision, and to an artifact that the caller names", async () => {
    const sealed = await seal(plain);
    const { decision_id } = JSON.parse(sealed.bytes.subarray(29, headerOf(sealed)).toString()).binding;
    const other = decision_id.replace(/./, decision_id[0] === "0" ? "1" : "0");
    const bytes = Buffer.from(sealed.bytes.toString("latin1").replace(decision_id, other), "latin1");
    expect(await failureOf(read({ ...sealed, bytes }, 0, 1))).toBe("not_authentic");
    const { artifactDigest: _, ...unnamed } = sealed;
    expect(await failureOf(read(unnamed as Sealed, 0, 1))).toBe("invalid");
    expect(await failureOf(read({ ...sealed, artifactDigest: "sha256:1" }, 0, 1))).toBe("invalid");
    await read(sealed, 0, 1);
    expect([...platform.events.values()].map(({ outcome }) => outcome).slice(-2)).toEqual(["releasing", "completed"]);
    expect([...platform.events.values()].at(-1)).toMatchObject({ artifact_digest: sealed.artifactDigest });
  });
});

test("swapped segments of a TDF are refused, and another digest is", async () => {
  const sealed = await seal(randomBytes(2 * tdfSegment), "tdf");
  const size = tdfSegment + 28;
  const at = sealed.bytes.indexOf("0.payload") + "0.payload".length + 20;
  const bytes = Buffer.from(sealed.bytes);
  sealed.bytes.copy(bytes, at, at + size, at + 2 * size);
  sealed.bytes.copy(bytes, at + size, at, at + size);
  expect(await failureOf(read({ ...sealed, bytes }, 0, 1))).toBe("not_authentic");
  expect(await failureOf(read({ ...sealed, bytes }, tdfSegment, 1))).toBe("not_authentic");
  const artifactDigest = `sha256:${"0".repeat(64)}`;
  expect(await failureOf(read({ ...sealed, artifactDigest }, 0, 1))).toBe("not_authentic");
});

describe("a sealed stream", () => {
  const outcomes = () => [...platform.events.values()].map(({ outcome }) => outcome);
  async function* endless(count: { pieces: number }) {
    for (;;) {
      count.pieces++;
      yield randomBytes(65_536);
    }
  }

  test("waits for its reader, and stops if the reader leaves", async () => {
    const count = { pieces: 0 };
    const { readable, outcome } = enforcer().protectStream({ ...sealOptions, input: endless(count) });
    await new Promise((resolve) => readable.once("readable", resolve));
    expect(count.pieces).toBeLessThan(10);
    readable.destroy();
    expect(await failureOf(outcome)).toBe("io_failed");
    expect(outcomes()).toEqual(["failed"]);
    expect(platform.registrations).toEqual([]);
    expect(readdirSync(join(folder, "spool")).filter((name) => name.endsWith(".json"))).toEqual([]);
  });

  test("stops while its input gives nothing", async () => {
    const input = new PassThrough();
    const { readable, outcome } = enforcer().protectStream({ ...sealOptions, input });
    await new Promise((resolve) => readable.once("readable", resolve));
    readable.destroy();
    expect(await failureOf(outcome)).toBe("io_failed");
    expect(input.destroyed).toBe(true);
  });

  test("fails for its reader if the work fails, even at its last step", async () => {
    platform.registerArtifact = async () => ({ accepted: false, warnings: ["no"] });
    const { readable } = enforcer().protectStream({ ...sealOptions, input: Readable.from([randomBytes(10)]) });
    await expect(buffer(readable)).rejects.toMatchObject({ failure: "not_permitted", httpStatus: 403 });
  });

  test("is a web stream too, and states its destination", async () => {
    const locator = "s3://bucket/key";
    const input = Readable.from([Buffer.from("text")]);
    const { readable, outcome } = enforcer().protectStream({ ...sealOptions, input, artifactLocator: locator });
    const bytes = Buffer.from(await new Response(Readable.toWeb(readable) as ReadableStream).arrayBuffer());
    const { artifactDigest } = await outcome;
    expect((await read({ bytes, profile: "envelope", artifactDigest }, 1, 2)).toString()).toBe("ex");
    expect(platform.registrations[0]?.artifact_locator).toBe(locator);
  });
});

test("a failure states whether to retry, and which status a server answers", () => {
  const refused = (code: Code) => PlatformError.from(new ConnectError("no", code));
  const said = (failure: EnforcementFailure, cause?: unknown) => {
    const { isRetryable, httpStatus } = new EnforcementError(failure, "what", { cause });
    return [isRetryable, httpStatus];
  };
  expect(said("invalid")).toEqual([false, 400]);
  expect(said("not_permitted")).toEqual([false, 403]);
  expect(said("exists")).toEqual([false, 409]);
  expect(said("not_authentic")).toEqual([false, 422]);
  expect(said("io_failed")).toEqual([true, 500]);
  expect(said("evidence_overdue")).toEqual([true, 503]);
  expect(said("unavailable", refused(Code.Unavailable))).toEqual([true, 503]);
  expect(said("unavailable", refused(Code.Unauthenticated))).toEqual([false, 503]);
});
