/** Envelopes where the platform allows everything: what is left is that only what was protected opens. */
import { createCipheriv, hkdfSync } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import {
  type EnvelopeBinding,
  encodeHeader,
  keyAssociatedData,
  keyCommitment,
  payloadAssociatedData,
} from "../../../clients/typescript/src/enforce/envelope.ts";
import { createEnforcer, EnforcementError, localKey } from "../../../clients/typescript/src/enforce/index.ts";
import { draws } from "../../harness/draws.ts";
import { permissivePlatform } from "../../harness/permissive-platform.ts";

const folder = mkdtempSync(join(tmpdir(), "envelope-"));
afterAll(() => rmSync(folder, { recursive: true }));

type JsonKey = { readonly kid: string; readonly k: string };
interface Vectors {
  readonly key: JsonKey;
  readonly vectors: readonly {
    readonly envelope: string;
    readonly plaintext_size?: number;
    readonly key_commitment?: string;
    readonly refused?: string;
  }[];
}
/** Of the old form, and those that commit to their content key. */
const files = ["envelope.json", "committed-envelope.json"].map((name) => {
  const path = join(import.meta.dirname, "../../../clients/conformance/vectors", name);
  return JSON.parse(readFileSync(path, "utf8")) as Vectors;
});
const enforcerWith = ({ kid, k }: JsonKey) =>
  createEnforcer({
    client: permissivePlatform(),
    workload: { application: "test" },
    keys: [localKey(kid, Buffer.from(k, "base64url")), localKey("local-other", Buffer.alloc(32))],
    spoolDirectory: join(folder, "spool"),
  });
const [{ key, vectors }] = files.slice(1) as [Vectors];
const enforcer = enforcerWith(key);
const pattern = (size: number) => Buffer.from(Array.from({ length: size }, (_, i) => i % 251));

/** Plaintext that came out, or the error and what came out before it. */
async function open(envelope: Uint8Array, subject = enforcer) {
  const released: Buffer[] = [];
  const output = new Writable({
    write(piece: Buffer, _, done) {
      released.push(Buffer.from(piece));
      done();
    },
  });
  try {
    const { isKeyCommitted } = await subject.open({ input: Readable.from([Buffer.from(envelope)]), output });
    return { plaintext: Buffer.concat(released), isKeyCommitted };
  } catch (error) {
    return { error, released: Buffer.concat(released) };
  }
}

const cases = files.flatMap(({ key, vectors }) => vectors.map((vector) => ({ key, ...vector })));

test.each(cases.map(({ refused, plaintext_size }, index) => ({ name: refused ?? `size ${plaintext_size}`, index })))(
  "vector $index: $name",
  async ({ index }) => {
    const { key, envelope, plaintext_size = 0, key_commitment, refused } = cases[index] as (typeof cases)[0];
    const opened = await open(Buffer.from(envelope, "base64"), enforcerWith(key));
    if (refused !== undefined) {
      expect(opened.error).toMatchObject({ failure: "not_authentic" });
      return;
    }
    expect(opened.plaintext?.equals(pattern(plaintext_size))).toBe(true);
    expect(opened.isKeyCommitted).toBe(key_commitment !== undefined);
  },
);

test("a rewrap keeps what the header commits to, and adds nothing to the old form", async () => {
  for (const { key, envelope, key_commitment } of cases.filter(({ refused }) => refused === undefined)) {
    const isKeyCommitted = key_commitment !== undefined;
    const output = join(folder, "rewrapped");
    const request = { output, newKeyReference: "local-other", replace: true };
    const input = Readable.from([Buffer.from(envelope, "base64")]);
    expect(await enforcerWith(key).rewrap({ ...request, input })).toMatchObject({ isKeyCommitted });
    expect(await open(readFileSync(output), enforcerWith(key))).toMatchObject({ isKeyCommitted });
  }
  const sealed = { input: join(folder, "rewrapped"), output: join(folder, "sealed"), resource: { kind: "test" } };
  expect(await enforcer.protect({ ...sealed, replace: true })).toMatchObject({ isKeyCommitted: true });
});

describe("one payload that opens to two texts under two content keys", () => {
  const contentKeys = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)] as const;
  const old: EnvelopeBinding = {
    aead: "AES256_GCM_HKDF_4KB",
    decision_id: "decision",
    labels: [],
    policy_revision: "revision",
    resource: { kind: "test" },
  };
  /** The envelope under the first key of the vectors, with either content key. */
  const envelopeOf = async (binding: EnvelopeBinding, contentKey: Uint8Array) => {
    const block = { decision_id: "key-decision", provider: "local", reference: key.kid };
    const wrappingKey = localKey(key.kid, Buffer.from(key.k, "base64url"));
    const wrapped = await wrappingKey.wrap(contentKey, keyAssociatedData(binding, block));
    const payload = payloadOfTwo(contentKeys, payloadAssociatedData(binding));
    return Buffer.concat([encodeHeader({ binding, key: { ...block, wrapped } }), payload]);
  };

  test("is reported as of a form that lets it, if the header commits to neither", async () => {
    const opened = await Promise.all(contentKeys.map(async (contentKey) => open(await envelopeOf(old, contentKey))));
    expect(opened).toMatchObject([{ isKeyCommitted: false }, { isKeyCommitted: false }]);
    expect(opened[0]?.plaintext?.subarray(0, 16).toString()).toBe("the first text..");
    expect(opened[1]?.plaintext?.equals(opened[0]?.plaintext as Buffer)).toBe(false);
  });

  test("opens with the one that the header commits to alone, before a byte and to a rewrap too", async () => {
    const binding = { ...old, key_commitment: keyCommitment(contentKeys[0]) };
    expect(await open(await envelopeOf(binding, contentKeys[0]))).toMatchObject({ isKeyCommitted: true });
    const other = await envelopeOf(binding, contentKeys[1]);
    const { error, released } = await open(other);
    expect(error).toMatchObject({ failure: "not_authentic" });
    expect(released?.length).toBe(0);
    const request = { output: join(folder, "chosen"), newKeyReference: "local-other" };
    await expect(enforcer.rewrap({ ...request, input: Readable.from([other]) })).rejects.toMatchObject({
      failure: "not_authentic",
    });
  });
});

/** A stream of one segment, whose tag is right under the keys that both content keys give (SP 800-38D, sections 6.3 and 7). */
function payloadOfTwo(contentKeys: readonly [Buffer, Buffer], associatedData: Buffer): Buffer {
  const header = Buffer.concat([Uint8Array.of(40), Buffer.alloc(39, 7)]);
  const counter = (n: number) => Buffer.concat([Buffer.alloc(7, 7), Buffer.from([0, 0, 0, 0, 1, 0, 0, 0, n])]);
  const [one, two] = contentKeys.map((contentKey) => {
    const derived = Buffer.from(hkdfSync("sha256", contentKey, header.subarray(1, 33), associatedData, 32));
    const encrypt = (block: Buffer) =>
      fieldOf(createCipheriv("aes-256-ecb", derived, null).setAutoPadding(false).update(block));
    return { h: encrypt(Buffer.alloc(16)), mask: encrypt(counter(1)), stream: encrypt(counter(2)) };
  }) as [Stream, Stream];
  const first = one.stream ^ fieldOf(Buffer.from("the first text.."));
  const length = fieldOf(Buffer.from("00000000000000000000000000000100", "hex"));
  const power = ({ h }: Stream, n: number) => Array<bigint>(n).fill(h).reduce(times);
  const both = (n: number) => power(one, n) ^ power(two, n);
  const rest = one.mask ^ two.mask ^ times(first, both(3)) ^ times(length, both(1));
  const second = times(rest, inverse(both(2)));
  const tag = one.mask ^ times(first, power(one, 3)) ^ times(second, power(one, 2)) ^ times(length, power(one, 1));
  return Buffer.concat([header, ...[first, second, tag].map(bytesOf)]);
}

interface Stream {
  readonly h: bigint;
  readonly mask: bigint;
  readonly stream: bigint;
}

const fieldOf = (bytes: Uint8Array) => BigInt(`0x${Buffer.from(bytes).toString("hex")}`);
const bytesOf = (value: bigint) => Buffer.from(value.toString(16).padStart(32, "0"), "hex");

/** The product of SP 800-38D section 6.3: the leftmost bit is the coefficient of 1. */
function times(x: bigint, y: bigint): bigint {
  let product = 0n;
  for (let bit = 127n, v = y; bit >= 0n; bit--) {
    if ((x >> bit) & 1n) product ^= v;
    v = v & 1n ? (v >> 1n) ^ (0xe1n << 120n) : v >> 1n;
  }
  return product;
}

/** x to the power of 2^128 - 2. */
function inverse(x: bigint): bigint {
  let [result, square] = [1n << 127n, x];
  for (let bit = 1; bit < 128; bit++) {
    square = times(square, square);
    result = times(result, square);
  }
  return result;
}

test("every byte of an envelope counts: with any of them changed it does not open", async () => {
  const envelope = Buffer.from(vectors[0]?.envelope ?? "", "base64");
  for (let at = 0; at < envelope.length; at += draws(7, 1)) {
    const changed = Buffer.from(envelope);
    changed[at] = (changed[at] as number) ^ 1;
    const { error, released } = await open(changed);
    expect(error, `byte ${at}`).toBeInstanceOf(EnforcementError);
    expect(released?.length, `byte ${at}`).toBe(0);
  }
});

test("what is cut, or changed in a later segment, gives at most the segments before", async () => {
  const envelope = Buffer.from(vectors[2]?.envelope ?? "", "base64");
  const plaintext = pattern(vectors[2]?.plaintext_size ?? 0);
  const change = fc.record({
    at: fc.integer({ min: 0, max: envelope.length - 1 }),
    mask: fc.integer({ min: 0, max: 255 }),
  });
  await fc.assert(
    fc.asyncProperty(change, async ({ at, mask }) => {
      const changed = mask === 0 ? envelope.subarray(0, at) : Buffer.from(envelope);
      if (mask !== 0) changed[at] = (changed[at] as number) ^ mask;
      const { error, released = Buffer.alloc(0) } = await open(changed);
      expect(error).toMatchObject({ failure: expect.stringMatching(/not_authentic|invalid/) });
      expect(plaintext.subarray(0, released.length).equals(released)).toBe(true);
    }),
    { numRuns: 100 },
  );
});

test("a file is there whole or not at all, also where the disk or the reader gives up", async () => {
  const input = join(folder, "sealed");
  const plain = join(folder, "plain");
  writeFileSync(plain, pattern(100_000));
  await enforcer.protect({ input: plain, output: input, resource: { kind: "test" }, replace: true });
  const stop = new AbortController();
  const request = { input, output: join(folder, "opened"), onProgress: () => stop.abort(), signal: stop.signal };
  await expect(enforcer.open(request)).rejects.toThrow(EnforcementError);
  const full = new Writable({ write: (_piece, _encoding, done) => done(new Error("no space left")) });
  await expect(enforcer.open({ input, output: full })).rejects.toThrow(EnforcementError);
  expect(readdirSync(folder).filter((name) => name.includes("opened"))).toEqual([]);
});
