/** Files of local enforcement across languages: what one protects or rewraps the other opens, and the same is refused. */
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { buildLanguages, type LanguageName, languageNames, languages, type Work } from "./enforcement-languages.ts";

const keys = {
  local: { "local-old": randomBytes(32).toString("hex"), "local-new": randomBytes(32).toString("hex") },
  signers: ["signer-old", "signer-new"].map((kid) => ({
    ...generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" }),
    kid,
  })),
  tdf: Object.entries({
    rsa: generateKeyPairSync("rsa", { modulusLength: 2048 }),
    ec: generateKeyPairSync("ec", { namedCurve: "P-384" }),
  }).map(([kid, { privateKey }]) => ({
    ...privateKey.export({ format: "jwk" }),
    ...{ kid, kas_url: "https://kas.example.com" },
  })),
};
const newKeys = { envelope: "local-new", detached_signature: "signer-new", tdf: "ec" } as const;
let folder: string;
const at = (name: string) => join(folder, name);

beforeAll(buildLanguages, 600_000);
beforeEach(() => {
  if (folder !== undefined) rmSync(folder, { recursive: true });
  folder = mkdtempSync(join(tmpdir(), "languages-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

const run = (name: LanguageName) => (work: Omit<Work, "keys" | "spool" | "new_key_reference">) =>
  languages[name]({
    ...work,
    keys,
    spool: at("spool"),
    new_key_reference: newKeys[(work.profile ?? "envelope") as keyof typeof newKeys],
  });

const pairs = [
  { from: "TypeScript", to: "Python" },
  { from: "Python", to: "TypeScript" },
] as const satisfies readonly Record<"from" | "to", LanguageName>[];
const cases = pairs.flatMap((pair) => [
  { ...pair, aead: "AES256_GCM_HKDF_4KB", size: 0 } as const,
  { ...pair, aead: "AES256_GCM_HKDF_4KB", size: 4_041 } as const,
  { ...pair, aead: "AES256_GCM_HKDF_1MB", size: 1_048_520 } as const,
  { ...pair, aead: "AES256_GCM_HKDF_1MB", size: 3_000_000 } as const,
]);

test.each(cases)("$from protects $size bytes with $aead, $to opens, rewraps and gives it back", async (it) => {
  const [here, there] = [run(it.from), run(it.to)];
  const plaintext = randomBytes(it.size);
  writeFileSync(at("plain"), plaintext);
  expect(await here({ operation: "protect", source: at("plain"), target: at("sealed"), aead: it.aead })).toHaveProperty(
    "artifact_digest",
  );
  await there({ operation: "open", source: at("sealed"), target: at("opened") });
  expect(readFileSync(at("opened")).equals(plaintext)).toBe(true);
  const rewrapped = await there({ operation: "rewrap", source: at("sealed"), target: at("rewrapped") });
  const again = await here({ operation: "open", source: at("rewrapped"), target: at("again") });
  expect(again.artifact_digest).toBe(rewrapped.artifact_digest);
  expect(readFileSync(at("again")).equals(plaintext)).toBe(true);
  changeByte("rewrapped", -1);
  for (const name of languageNames)
    expect(await run(name)({ operation: "open", source: at("rewrapped"), target: at("no") })).toEqual(notAuthentic);
  expect(existsSync(at("no"))).toBe(false);
});

test.each(pairs)("$from signs, $to verifies, signs again, and is verified", async ({ from, to }) => {
  const [here, there] = [run(from), run(to)];
  const data = randomBytes(1_500_000);
  writeFileSync(at("data"), data);
  const profile = "detached_signature";
  const signed = await here({ operation: "protect", profile, source: at("data"), target: at("sig") });
  expect(signed).toHaveProperty("artifact_digest");
  const opening = { operation: "open", source: at("data") } as const;
  expect(await there({ ...opening, signature: at("sig"), target: at("opened") })).toEqual(signed);
  expect(readFileSync(at("opened")).equals(data)).toBe(true);
  const anew = await there({ operation: "rewrap", profile, source: at("sig"), target: at("anew") });
  expect(await here({ ...opening, signature: at("anew"), target: at("again") })).toEqual(anew);
  expect(readFileSync(at("again")).equals(data)).toBe(true);
  changeByte("sig", -10);
  writeFileSync(at("other"), data.subarray(1));
  for (const name of languageNames) {
    expect(await run(name)({ ...opening, signature: at("sig"), target: at("no") })).toEqual(notAuthentic);
    const other = { operation: "open", source: at("other"), signature: at("anew"), target: at("no") } as const;
    expect(await run(name)(other)).toEqual(notAuthentic);
  }
  expect(existsSync(at("no"))).toBe(false);
});

const segmentBytes = 2_097_152;
const tdfCases = pairs.flatMap((pair) => [
  { ...pair, size: 0, tdf_keys: [["rsa"]], segment_hash: "GMAC" } as const,
  { ...pair, size: segmentBytes, tdf_keys: [["rsa"], ["ec"]], segment_hash: "HS256" } as const,
  { ...pair, size: segmentBytes + 1, tdf_keys: [["ec", "rsa"]], segment_hash: "GMAC" } as const,
]);

test.each(tdfCases)("$from makes a TDF of $size bytes for $tdf_keys, $to opens and rewraps it", async (it) => {
  const [here, there] = [run(it.from), run(it.to)];
  const { tdf_keys, segment_hash } = it;
  const plaintext = randomBytes(it.size);
  writeFileSync(at("plain"), plaintext);
  const profile = "tdf";
  const making = { profile, tdf_keys, segment_hash, source: at("plain"), target: at("sealed") } as const;
  const sealed = await here({ operation: "protect", ...making });
  expect(sealed).toHaveProperty("artifact_digest");
  const opening = { operation: "open", profile, source: at("sealed") } as const;
  expect(await there({ ...opening, target: at("opened") })).toEqual(sealed);
  expect(readFileSync(at("opened")).equals(plaintext)).toBe(true);
  const rewrapped = await there({ operation: "rewrap", profile, source: at("sealed"), target: at("rewrapped") });
  const again = { ...opening, source: at("rewrapped"), target: at("again") };
  expect(await here(again)).toEqual(rewrapped);
  expect(readFileSync(at("again")).equals(plaintext)).toBe(true);
  changeByte("sealed", 60);
  for (const name of languageNames) expect(await run(name)({ ...opening, target: at("no") })).toEqual(notAuthentic);
  expect(existsSync(at("no"))).toBe(false);
});

const notAuthentic = { failure: "not_authentic" };

function changeByte(name: string, place: number): void {
  const bytes = readFileSync(at(name));
  const index = (place + bytes.length) % bytes.length;
  bytes[index] = (bytes[index] as number) ^ 1;
  writeFileSync(at(name), bytes);
}
