/** Envelopes where the platform allows everything: what is left is that only what was protected opens. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { createEnforcer, EnforcementError, localKey } from "../../../clients/typescript/src/enforce/index.ts";
import { permissivePlatform } from "../../harness/permissive-platform.ts";

const folder = mkdtempSync(join(tmpdir(), "envelope-"));
afterAll(() => rmSync(folder, { recursive: true }));

interface Vectors {
  readonly key: { readonly kid: string; readonly k: string };
  readonly vectors: readonly {
    readonly envelope: string;
    readonly plaintext_size?: number;
    readonly refused?: string;
  }[];
}
const vectorFile = join(import.meta.dirname, "../../../clients/conformance/vectors/envelope.json");
const { key, vectors } = JSON.parse(readFileSync(vectorFile, "utf8")) as Vectors;
const enforcer = createEnforcer({
  client: permissivePlatform(),
  workload: { application: "test" },
  keys: [localKey(key.kid, Buffer.from(key.k, "base64url"))],
  spoolDirectory: join(folder, "spool"),
});
const pattern = (size: number) => Buffer.from(Array.from({ length: size }, (_, i) => i % 251));

/** Plaintext that came out, or the error and what came out before it. */
async function open(envelope: Uint8Array) {
  const released: Buffer[] = [];
  const output = new Writable({
    write(piece: Buffer, _, done) {
      released.push(Buffer.from(piece));
      done();
    },
  });
  try {
    await enforcer.open({ input: Readable.from([Buffer.from(envelope)]), output });
    return { plaintext: Buffer.concat(released) };
  } catch (error) {
    return { error, released: Buffer.concat(released) };
  }
}

test.each(vectors.map((vector, index) => ({ name: vector.refused ?? `size ${vector.plaintext_size}`, index })))(
  "vector $index: $name",
  async ({ index }) => {
    const { envelope, plaintext_size = 0, refused } = vectors[index] as Vectors["vectors"][0];
    const opened = await open(Buffer.from(envelope, "base64"));
    if (refused === undefined) expect(opened.plaintext?.equals(pattern(plaintext_size))).toBe(true);
    else expect(opened.error).toMatchObject({ failure: "not_authentic" });
  },
);

test("every byte of an envelope counts: with any of them changed it does not open", async () => {
  const envelope = Buffer.from(vectors[0]?.envelope ?? "", "base64");
  for (let at = 0; at < envelope.length; at++) {
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
  await enforcer.protect({ input: plain, output: input, resource: { kind: "test" } });
  const stop = new AbortController();
  const request = { input, output: join(folder, "opened"), onProgress: () => stop.abort(), signal: stop.signal };
  await expect(enforcer.open(request)).rejects.toThrow(EnforcementError);
  const full = new Writable({ write: (_piece, _encoding, done) => done(new Error("no space left")) });
  await expect(enforcer.open({ input, output: full })).rejects.toThrow(EnforcementError);
  expect(readdirSync(folder).filter((name) => name.includes("opened"))).toEqual([]);
});
