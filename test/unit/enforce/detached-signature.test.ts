/** Detached signatures where the platform allows everything: what is left is that only what was signed is released. */
import { createHash, createPublicKey } from "node:crypto";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { bundleFromJSON } from "@sigstore/bundle";
import { toSignedEntity, toTrustMaterial, Verifier } from "@sigstore/verify";
import { describe, expect, test } from "vitest";
import {
  createEnforcer,
  createPublicKeyFile,
  createSigningKeyFile,
  EnforcementError,
  keyFile,
  localSigningKey,
  type SigningKey,
} from "../../../clients/typescript/src/enforce/index.ts";
import { draws } from "../../harness/draws.ts";
import { folderForFile } from "../../harness/folder.ts";
import { permissivePlatform } from "../../harness/permissive-platform.ts";

const folder = folderForFile("detached");
const at = (name: string) => join(folder, name);

interface Vector {
  readonly signature: string;
  readonly data_size?: number;
  readonly refused?: string;
}
type Jwk = Readonly<Record<string, unknown>> & { readonly kid: string };
const vectorFile = (name: string) =>
  JSON.parse(readFileSync(join(import.meta.dirname, "../../../clients/conformance/vectors", name), "utf8"));
const { key, vectors: oldVectors }: { key: Jwk; vectors: readonly Vector[] } = vectorFile("detached-signature.json");
const { keys, vectors }: { keys: readonly Jwk[]; vectors: readonly Vector[] } = vectorFile("signed-statement.json");
const platform = permissivePlatform();
const enforcerWith = (...keys: SigningKey[]) =>
  createEnforcer({ client: platform, workload: { application: "test" }, keys, spoolDirectory: at("spool") });
const enforcer = enforcerWith(...keys.map((jwk) => localSigningKey(jwk.kid, jwk)));
const pattern = (size: number) => Buffer.from(Array.from({ length: size }, (_, i) => i % 251));
const base64 = (text = "") => Buffer.from(text, "base64");

/** Opens to a file and to a stream; gives what failed, where nothing at all was released. */
async function failureOf(signature: Uint8Array, data: Uint8Array): Promise<string | undefined> {
  writeFileSync(at("signature"), signature);
  writeFileSync(at("data"), data);
  const failures: (string | undefined)[] = [];
  let released = 0;
  const stream = new Writable({
    write(piece: Buffer, _, done) {
      released += piece.length;
      done();
    },
  });
  for (const output of [at("opened"), stream]) {
    const request = { input: at("data"), signature: at("signature"), output, replace: true };
    const error = await enforcer.open(request).then(
      () => undefined,
      (error: unknown) => error,
    );
    if (error !== undefined) expect(error).toBeInstanceOf(EnforcementError);
    failures.push((error as EnforcementError | undefined)?.failure);
  }
  expect(failures[0]).toBe(failures[1]);
  if (failures[0] === undefined) {
    expect(readFileSync(at("opened")).equals(data)).toBe(true);
    expect(released).toBe(data.length);
    rmSync(at("opened"));
    rmSync(at("opened.receipts.json"));
  }
  expect(failures[0] === undefined ? 0 : released).toBe(0);
  expect(readdirSync(folder).filter((name) => name.includes("opened"))).toEqual([]);
  expect(readdirSync(at("spool")).filter((name) => name !== "passing")).toEqual([]);
  return failures[0];
}

const forms = { statement: vectors, "old form": oldVectors };
const named = (Object.keys(forms) as (keyof typeof forms)[]).flatMap((form) =>
  forms[form].map((vector, index) => ({ form, index, name: vector.refused ?? `size ${vector.data_size}` })),
);
test.each(named)("vector $index of the $form: $name", async ({ form, index }) => {
  const { signature, data_size = 100, refused } = forms[form][index] as Vector;
  const failure = await failureOf(base64(signature), pattern(data_size));
  expect(failure).toBe(refused === undefined ? undefined : "not_authentic");
});

/** The step from one byte to the next that is changed: coprime to the groups of base64. */
const step = draws(7, 1);

describe("a bundle with any changed byte is refused", () => {
  const signature = base64(vectors[3]?.signature);

  test("of the signature file", async () => {
    for (let place = 0; place < signature.length; place += step) {
      const changed = Buffer.from(signature);
      changed[place] = (changed[place] as number) ^ 1;
      // The name of another key is no name of a key here.
      expect(["not_authentic", "invalid"], `byte ${place}`).toContain(await failureOf(changed, pattern(100)));
    }
  });

  test("of the data, or another count of them", async () => {
    for (let place = 0; place < 100; place += step) {
      const changed = pattern(100);
      changed[place] = (changed[place] as number) ^ 1;
      expect(await failureOf(signature, changed), `byte ${place}`).toBe("not_authentic");
    }
    for (const size of [0, 1, 99, 101, 5_000_000])
      expect(await failureOf(signature, pattern(size)), `size ${size}`).toBe("not_authentic");
  });
});

describe.each(["EdDSA", "ES256"] as const)("a signature of %s", (algorithm) => {
  const signing = { profile: "detached_signature", input: at("signed"), resource: { kind: "test", id: "it" } } as const;
  const publicKey = () => createPublicKey(readFileSync(at(`${algorithm}.pem`)));

  test("is verified by the Sigstore verifier, as bundle and as statement about the data", async () => {
    await createSigningKeyFile(at(`${algorithm}.key`), "signer", algorithm);
    await createPublicKeyFile(at(`${algorithm}.key`), at(`${algorithm}.pem`), "pem");
    const signer = enforcerWith((await keyFile(at(`${algorithm}.key`))) as SigningKey);
    writeFileSync(at("signed"), pattern(100));
    await signer.protect({ ...signing, output: at("bundle.json"), replace: true, bundle: true });
    await signer.protect({ ...signing, output: at("dsse.json"), replace: true });
    const trust = { certificateAuthorities: [], timestampAuthorities: [], tlogs: [], ctlogs: [] };
    const keySelector = () => ({ publicKey: publicKey(), validFor: () => true });
    const thresholds = { tlogThreshold: 0, ctlogThreshold: 0, timestampThreshold: 0 };
    const verifier = new Verifier(toTrustMaterial(trust as never, keySelector), thresholds);
    const bundle = JSON.parse(readFileSync(at("bundle.json"), "utf8"));
    const verify = (changed: object) => verifier.verify(toSignedEntity(bundleFromJSON({ ...bundle, ...changed })));
    verify({});
    const statement = JSON.parse(readFileSync(at("dsse.json"), "utf8"));
    verify({ dsseEnvelope: statement });
    expect(() => verify({ dsseEnvelope: { ...statement, payloadType: "text/plain" } })).toThrow();
    expect(JSON.parse(Buffer.from(statement.payload, "base64").toString())).toMatchObject({
      _type: "https://in-toto.io/Statement/v1",
      subject: [{ digest: { sha256: createHash("sha256").update(pattern(100)).digest("hex") }, name: "it" }],
    });
  });
});

test("a holder of other keys, or another one of this name, opens nothing; a holder of the public key opens and cannot sign", async () => {
  for (const name of ["one", "two"]) await createSigningKeyFile(at(`${name}.key`), name);
  await createSigningKeyFile(at("false.key"), "one");
  await createPublicKeyFile(at("one.key"), at("one.pub"));
  expect(JSON.parse(readFileSync(at("one.pub"), "utf8"))).not.toHaveProperty("d");
  const [one, two, impostor, verifier] = (await Promise.all(
    ["one.key", "two.key", "false.key", "one.pub"].map((name) => keyFile(at(name))),
  )) as [SigningKey, SigningKey, SigningKey, SigningKey];
  const resource = { kind: "test" };
  const signing = { profile: "detached_signature", input: at("input"), output: at("input.sig"), resource } as const;
  writeFileSync(at("input"), pattern(3_000_000));
  await enforcerWith(one).protect(signing);
  expect(readFileSync(at("input")).equals(pattern(3_000_000))).toBe(true);
  const opening = { input: at("input"), signature: at("input.sig"), output: at("copy") };
  await expect(enforcerWith(two).open(opening)).rejects.toMatchObject({ failure: "invalid" });
  await expect(enforcerWith(impostor).open(opening)).rejects.toMatchObject({ failure: "not_authentic" });
  await enforcerWith(verifier).open(opening);
  expect(readFileSync(at("copy")).equals(pattern(3_000_000))).toBe(true);
  await expect(enforcerWith(verifier).protect({ ...signing, replace: true })).rejects.toMatchObject({
    failure: "invalid",
  });

  const anew = { profile: "detached_signature", input: at("input.sig"), output: at("anew.sig") } as const;
  const request = { ...anew, newKeyReference: "two" };
  await expect(enforcerWith(impostor, two).rewrap(request)).rejects.toMatchObject({ failure: "not_authentic" });
  expect(readdirSync(folder)).not.toContain("anew.sig");
  await enforcerWith(verifier, two).rewrap(request);
  await enforcerWith(two).open({ ...opening, signature: at("anew.sig"), output: at("copy2") });
  await expect(
    enforcerWith(verifier).open({ ...opening, signature: at("anew.sig"), output: at("copy3") }),
  ).rejects.toMatchObject({ failure: "invalid" });
});

test("opening and signing again replace neither data nor signature", async () => {
  writeFileSync(at("signature"), base64(vectors[1]?.signature));
  writeFileSync(at("data"), pattern(100));
  const resource = { kind: "test" };
  const signer = { ...localSigningKey(key.kid, key), sign: async () => Buffer.alloc(64) };
  const over = { profile: "detached_signature", input: at("data"), output: at("data"), replace: true } as const;
  await expect(enforcerWith(signer).protect({ ...over, resource })).rejects.toMatchObject({ failure: "invalid" });
  const request = { input: at("data"), signature: at("signature"), output: at("signature"), replace: true };
  await expect(enforcer.open(request)).rejects.toMatchObject({ failure: "invalid" });
  expect(readFileSync(at("data")).equals(pattern(100))).toBe(true);
  // A key service that signs something else is noticed before anything depends on it.
  const made = { ...over, resource, output: at("made") };
  await expect(enforcerWith(signer).protect(made)).rejects.toMatchObject({ failure: "unavailable" });
  expect(readdirSync(folder)).not.toContain("made");
});

test("streams are signed and verified as well, and a changed one yields nothing", async () => {
  await createSigningKeyFile(at("stream.key"), "stream");
  const enforcer = enforcerWith((await keyFile(at("stream.key"))) as SigningKey);
  const pieces = () => Readable.from([pattern(70_000), pattern(70_000)]);
  const resource = { kind: "test" };
  await enforcer.protect({ profile: "detached_signature", input: pieces(), output: at("stream.sig"), resource });
  const request = { signature: at("stream.sig"), output: at("from-stream") };
  await expect(enforcer.open({ ...request, input: Readable.from([pattern(140_000)]) })).rejects.toMatchObject({
    failure: "not_authentic",
  });
  await enforcer.open({ ...request, input: pieces() });
  expect(readFileSync(at("from-stream")).length).toBe(140_000);
});

test.each<[string, object]>([
  ["another curve", { kty: "OKP", crv: "X25519", x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" }],
  ["a point that is none", { kty: "OKP", crv: "Ed25519", x: "AAAA" }],
  ["a private key of another public one", { ...key, d: "TM0Imyj_ltqdtsNG7BFOD1uKMZ81q6Yk2oz27U-4pvs" }],
])("%s is no signing key", (_, jwk) => {
  expect(() => localSigningKey("local", { ...jwk })).toThrow(EnforcementError);
});
