/** Envelopes where the platform allows everything: what is left is that only what was protected opens. */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type EnvelopeBinding,
  encodeHeader,
  keyAssociatedData,
  keyCommitment,
} from "../../../clients/typescript/src/enforce/envelope.ts";
import { createEnforcer, EnforcementError, localKey } from "../../../clients/typescript/src/enforce/index.ts";
import { draws } from "../../harness/draws.ts";
import { folderForFile } from "../../harness/folder.ts";
import { permissivePlatform } from "../../harness/permissive-platform.ts";

const folder = folderForFile("envelope");

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

test("a rewrap keeps the header's commitments, and adds none to the old form", async () => {
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
  /**
   * Streams of one segment whose tag is right under both content keys, with the associated data of each header below: its
   * second block solves the equation of both tags (SP 800-38D, sections 6.3 and 7).
   */
  const payloads = {
    uncommitted:
      "KAcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBxJ94O9xonQ18KqbrQ1kfJJBZQK8QBxnvgUSCdq19OiuymZjeT6gfAszKpLVu4zVeA==",
    committed:
      "KAcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHB4UPBklqnh9MZbbsB/A0utxsQDzw8WxIOPikisWFy4ZMIBtD/tZdbipnJ2fHwCbQZQ==",
  };
  /** The envelope under the first key of the vectors, with either content key. */
  const envelopeOf = async (binding: EnvelopeBinding, contentKey: Uint8Array) => {
    const block = { decision_id: "key-decision", provider: "local", reference: key.kid };
    const wrappingKey = localKey(key.kid, Buffer.from(key.k, "base64url"));
    const wrapped = await wrappingKey.wrap(contentKey, keyAssociatedData(binding, block));
    const payload = binding.key_commitment === undefined ? payloads.uncommitted : payloads.committed;
    return Buffer.concat([encodeHeader({ binding, key: { ...block, wrapped } }), Buffer.from(payload, "base64")]);
  };

  test("is reported as possible if the header commits to neither key", async () => {
    const opened = await Promise.all(contentKeys.map(async (contentKey) => open(await envelopeOf(old, contentKey))));
    expect(opened).toMatchObject([{ isKeyCommitted: false }, { isKeyCommitted: false }]);
    expect(opened[0]?.plaintext?.subarray(0, 16).toString()).toBe("the first text..");
    expect(opened[1]?.plaintext?.equals(opened[0]?.plaintext as Buffer)).toBe(false);
  });

  test("opens with the committed key only, before a byte is written, in a rewrap too", async () => {
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

test("an envelope that is cut, or changed in any byte, yields at most the segments before", async () => {
  const segment = 4_096;
  const files = [vectors[0], vectors[2]].map((vector) => Buffer.from(vector?.envelope ?? "", "base64"));
  const change = fc.record({
    envelope: fc.constantFrom(...files),
    at: fc.nat(),
    mask: fc.integer({ min: 0, max: 255 }),
  });
  await fc.assert(
    fc.asyncProperty(change, async ({ envelope, at, mask }) => {
      const place = at % envelope.length;
      const changed = mask === 0 ? envelope.subarray(0, place) : Buffer.from(envelope);
      if (mask !== 0) changed[place] = (changed[place] as number) ^ mask;
      const { error, released = Buffer.alloc(0) } = await open(changed);
      expect(error).toMatchObject({ failure: expect.stringMatching(/not_authentic|invalid/) });
      // The salt and a nonce take 40 bytes of the first segment, and a tag 16 of each.
      const whole = Math.floor((place - 29 - envelope.readUInt32BE(25)) / segment);
      expect(released.length).toBeLessThanOrEqual(whole <= 0 ? 0 : whole * (segment - 16) - 40);
      expect(pattern(released.length).equals(released)).toBe(true);
    }),
    { numRuns: draws(150, 1_000) },
  );
});

test("a file is complete or absent, even if the disk or the reader fails", async () => {
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
