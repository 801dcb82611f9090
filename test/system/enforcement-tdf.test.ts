/**
 * TDF files across programs: the OpenTDF Go SDK, with its strict schema, opens what the packages for TypeScript and Python
 * make, and makes files that open in both.
 */
import { execFileSync, spawn } from "node:child_process";
import { generateKeyPairSync, type KeyObject, randomBytes, randomUUID } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, describe, expect, test } from "vitest";
import { createEnforcer, localTdfKey } from "../../clients/typescript/src/enforce/index.ts";
import { folderForFile } from "../harness/folder.ts";
import { permissivePlatform } from "../harness/permissive-platform.ts";
import { buildLanguages, languages, type Work } from "./enforcement-languages.ts";

const folder = folderForFile("opentdf");
const at = (name: string) => join(folder, name);
const rsa = () => generateKeyPairSync("rsa", { modulusLength: 2048 });
/** `gone` is a key that the other program's service has lost. */
const pairs = { r1: rsa(), r2: rsa(), gone: rsa(), e1: generateKeyPairSync("ec", { namedCurve: "P-256" }) };
const pem = (key: KeyObject, type: "pkcs8" | "spki") => String(key.export({ type, format: "pem" } as object));
const segmentBytes = 2_097_152;
const sizes = [0, 1, segmentBytes - 1, segmentBytes, segmentBytes + 1, 50_000_000];
const resource = { kind: "report", id: "<1 & 2>" };
const profile = "tdf";

buildLanguages();
const cwd = join(import.meta.dirname, "opentdf");
const env = { ...process.env, GOTOOLCHAIN: "go1.26.10" };
execFileSync("go", ["build", "-o", at("opentdf"), "."], { cwd, env, stdio: "inherit" });
const { gone: _, ...held } = pairs;
const privateKeys = Object.entries(held).map(([kid, { privateKey }]) => [kid, pem(privateKey, "pkcs8")]);
writeFileSync(at("keys.json"), JSON.stringify(Object.fromEntries(privateKeys)));
const program = spawn(at("opentdf"), [at("keys.json")], { stdio: ["pipe", "pipe", "ignore"] });
afterAll(() => void program.kill());
const lines = createInterface({ input: program.stdout })[Symbol.asyncIterator]();
const { address: url } = await answer();
const ownKeys = Object.entries(pairs).map(([kid, { privateKey }]) => ({
  ...privateKey.export({ format: "jwk" }),
  ...{ kid, kas_url: url },
}));
/** One that has the keys of these names alone. */
const enforcerWith = (kids: readonly string[]) =>
  createEnforcer({
    client: permissivePlatform(),
    workload: { application: "test" },
    keys: ownKeys.filter(({ kid }) => kids.includes(kid)).map((jwk) => localTdfKey(jwk.kid, jwk, { url })),
    spoolDirectory: at("spool"),
    attributeNamespace: "example.com",
  });
const enforcer = enforcerWith(Object.keys(pairs));
const inPython = (work: Omit<Work, "keys" | "spool" | "profile">) =>
  languages.Python({ ...work, profile, keys: { tdf: ownKeys }, spool: at("python-spool") });

async function answer(): Promise<{ readonly address: string; readonly error?: string }> {
  return JSON.parse((await lines.next()).value ?? "");
}

function ask(job: object) {
  program.stdin.write(`${JSON.stringify(job)}\n`);
  return answer();
}

/** Writes so many bytes to protect, and returns them. */
function newPlain(sizeBytes: number): Buffer {
  const plain = randomBytes(sizeBytes);
  writeFileSync(at("plain"), plain);
  return plain;
}

const opening = { profile, input: at("theirs"), output: at("out"), replace: true, resource } as const;

/** What the other program made opens in both languages. */
async function expectOpening(plain: Buffer): Promise<void> {
  expect(await enforcer.open({ ...opening, allowForeign: true })).toMatchObject({ isForeign: true });
  expect(readFileSync(at("out")).equals(plain)).toBe(true);
  const target = at(`python-${randomUUID()}`);
  const work = { operation: "open", source: at("theirs"), target, allow_foreign: true } as const;
  expect(await inPython(work)).not.toHaveProperty("failure");
  expect(readFileSync(target).equals(plain)).toBe(true);
}

const seal = (tdf: object) =>
  enforcer.protect({
    ...{ profile, tdf, resource, labels: ["confidential", "eu-only"] },
    ...{ input: at("plain"), output: at("sealed"), replace: true },
  });

const forms: readonly [string, { keys: string[][]; segmentHash?: "GMAC" }][] = [
  ["RSA", { keys: [["r1"]] }],
  ["EC", { keys: [["e1"]] }],
  ["shares", { keys: [["r1"], ["e1"]] }],
  ["alternatives", { keys: [["gone", "r2"], ["e1"]] }],
  ["GMAC", { keys: [["r1"]], segmentHash: "GMAC" }],
];

describe.each(forms)("%s", (_, tdf) => {
  test.each(sizes)("%i bytes protected here open there", async (sizeBytes) => {
    const plain = newPlain(sizeBytes);
    await seal(tdf);
    expect(await ask({ operation: "open", source: at("sealed"), target: at("out") })).toEqual({});
    expect(readFileSync(at("out")).equals(plain)).toBe(true);
  });
});

test.each(
  forms.flatMap(([form, tdf], i) =>
    [i === 0 ? 50_000_000 : 0, segmentBytes + i - 2].map((sizeBytes) => ({ form, sizeBytes, ...tdf })),
  ),
)("$form: $sizeBytes bytes protected in Python open there", async ({ sizeBytes, keys, segmentHash }) => {
  const plain = newPlain(sizeBytes);
  const form = { tdf_keys: keys, ...(segmentHash && { segment_hash: segmentHash }) };
  const target = at(`python-${randomUUID()}`);
  expect(await inPython({ operation: "protect", ...form, source: at("plain"), target })).not.toHaveProperty("failure");
  expect(await ask({ operation: "open", source: target, target: at("out") })).toEqual({});
  expect(readFileSync(at("out")).equals(plain)).toBe(true);
});

test("a file rewrapped here opens there, and one that lacks a share does not", async () => {
  writeFileSync(at("plain"), "secret");
  await seal({ keys: [["r1"]] });
  await enforcer.rewrap({ profile, input: at("sealed"), output: at("rewrapped"), newKeyReference: "e1" });
  expect(await ask({ operation: "open", source: at("rewrapped"), target: at("out") })).toEqual({});
  expect(readFileSync(at("out"), "utf8")).toBe("secret");
  await seal({ keys: [["r1"], ["gone"]] });
  expect(await ask({ operation: "open", source: at("sealed"), target: at("no") })).toHaveProperty("error");
});

test.each(
  sizes.flatMap((sizeBytes) => [
    { sizeBytes, kid: "r1", algorithm: "rsa:2048" } as const,
    { sizeBytes, kid: "e1", algorithm: "ec:secp256r1" } as const,
  ]),
)("$sizeBytes bytes made there with $algorithm open here", async ({ sizeBytes, kid, algorithm }) => {
  const plain = newPlain(sizeBytes);
  const public_key = pem(pairs[kid].publicKey, "spki");
  const job = { operation: "make", source: at("plain"), target: at("theirs"), kid, algorithm, public_key, fqns: [] };
  expect(await ask(job)).toEqual({});
  await expect(enforcer.open(opening)).rejects.toMatchObject({ failure: "not_authentic" });
  await expectOpening(plain);
});

const algorithms = { r1: "rsa:2048", r2: "rsa:2048", gone: "rsa:2048", e1: "ec:secp256r1" } as const;
const theirShares: readonly (readonly [string, readonly (readonly (keyof typeof pairs)[])[]])[] = [
  ["shares", [["r1"], ["e1"]]],
  ["alternatives", [["gone", "r2", "e1"]]],
  ["shares with alternatives", [["gone", "r1"], ["e1"]]],
];

test.each(
  theirShares.flatMap(([form, shares]) => [1, segmentBytes + 1].map((sizeBytes) => ({ form, shares, sizeBytes }))),
)("$form: $sizeBytes bytes made there open here, if each share has a key", async ({ shares, sizeBytes }) => {
  const plain = newPlain(sizeBytes);
  const wrappings = shares.map((kids) =>
    kids.map((kid) => ({ kid, algorithm: algorithms[kid], public_key: pem(pairs[kid].publicKey, "spki") })),
  );
  const job = { operation: "make", source: at("plain"), target: at("theirs"), shares: wrappings };
  expect(await ask(job)).toEqual({});
  await expectOpening(plain);
  const holdingOne = enforcerWith(["e1"]).open({ ...opening, allowForeign: true });
  if (shares.length === 1) await holdingOne;
  else await expect(holdingOne).rejects.toMatchObject({ failure: "invalid" });
});
