/** Profile `tdf` where the platform allows everything: what is written, and that only what was protected is released. */
import { createHash, createHmac, randomBytes } from "node:crypto";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough, Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { crc32 } from "node:zlib";
import { describe, expect, test, vi } from "vitest";
import {
  createEnforcer,
  createPublicKeyFile,
  createTdfKeyFile,
  EnforcementError,
  keyFile,
  localTdfKey,
  type TdfKey,
} from "../../../clients/typescript/src/enforce/index.ts";
import { folderForFile } from "../../harness/folder.ts";
import { failureOf, permissivePlatform } from "../../harness/permissive-platform.ts";

const folder = folderForFile("tdf");
const at = (name: string) => join(folder, name);
const platform = permissivePlatform();
const enforcerWith = (...keys: TdfKey[]) =>
  createEnforcer({
    ...{ client: platform, workload: { application: "test" }, keys, spoolDirectory: at("spool") },
    attributeNamespace: "example.com",
  });
const resource = { kind: "customer-record", id: "cust-1", mime_type: "application/pdf" };
const profile = "tdf";
const segmentBytes = 2_097_152;

await createTdfKeyFile(at("rsa.key"), "https://kas.example.com", "rsa");
await createTdfKeyFile(at("ec.key"), "https://kas.example.com/ec", "ec", "ECDH-ES");
await createTdfKeyFile(at("other.key"), "https://kas.example.com", "other");
await createPublicKeyFile(at("rsa.key"), at("rsa.pub"));
const held = async (name: string) => (await keyFile(at(name))) as TdfKey;
const keys = { rsa: await held("rsa.key"), ec: await held("ec.key"), other: await held("other.key") };
const publicKey = await held("rsa.pub");

const labels = ["confidential"];
const seal = (plain: Uint8Array, options: object = {}, ...with_: TdfKey[]) => {
  writeFileSync(at("plain"), plain);
  const request = { profile, input: at("plain"), output: at("sealed"), resource, labels, replace: true } as const;
  return enforcerWith(...(with_.length > 0 ? with_ : [keys.rsa])).protect({ ...request, ...options });
};
const open = (options: object = {}, ...with_: TdfKey[]) =>
  enforcerWith(...(with_.length > 0 ? with_ : [keys.rsa])).open({
    ...({ profile, input: at("sealed"), output: at("opened"), replace: true } as const),
    ...options,
  });
type Parsed = ReturnType<typeof JSON.parse>;

/** The parts of a small file, found by the local headers as they are written. */
function partsOf(file: Buffer) {
  const start = file.indexOf('{"assertions"');
  const end = file.indexOf(Buffer.from("504b0708", "hex"), start);
  return { start, end, manifest: JSON.parse(file.subarray(start, end).toString()) };
}

describe.each(["rsa", "ec"] as const)("with a key of %s", (name) => {
  test.each([0, 1, segmentBytes - 1, segmentBytes, segmentBytes + 1, 3 * segmentBytes + 5])(
    "%i bytes are protected and opened",
    async (sizeBytes) => {
      const plain = randomBytes(sizeBytes);
      const sealed = await seal(plain, {}, keys[name]);
      expect(await open({}, keys[name])).toMatchObject({ isForeign: false, artifactDigest: sealed.artifactDigest });
      expect(readFileSync(at("opened")).equals(plain)).toBe(true);
    },
  );
});

test("the manifest names the decision, and its digest is registered", async () => {
  const sealed = await seal(Buffer.from("secret"), {}, publicKey);
  const { start, end, manifest } = partsOf(readFileSync(at("sealed")));
  const bytes = readFileSync(at("sealed")).subarray(start, end);
  expect(sealed.artifactDigest).toBe(`sha256:${createHash("sha256").update(bytes).digest("hex")}`);
  expect(platform.registrations.at(-1)).toMatchObject({
    artifact_kind: "tdf_manifest",
    artifact_profile: "tdf",
    artifact_digest: sealed.artifactDigest,
    key_reference: "rsa",
  });
  const policy = JSON.parse(Buffer.from(manifest.encryptionInformation.policy, "base64").toString());
  expect(policy).toEqual({
    uuid: sealed.decisionId,
    body: {
      dissem: [],
      dataAttributes: [
        { attribute: `https://example.com/attr/decision/value/${sealed.decisionId}` },
        { attribute: "https://example.com/attr/label/value/confidential" },
      ],
    },
  });
  expect(manifest).toMatchObject({ schemaVersion: "4.3.0", payload: { mimeType: "application/pdf" } });
  // The public half protects only.
  expect(await failureOf(open({}, publicKey))).toBe("invalid");
  expect(await failureOf(open({}, keys.other))).toBe("invalid");
  await open();
});

test("streams of unknown size use ZIP64, and are read back as streams", async () => {
  const plain = randomBytes(5_000_000);
  const sealed = new PassThrough();
  const [bytes] = await Promise.all([
    buffer(sealed),
    seal(Buffer.alloc(0), { input: Readable.from([plain]), output: sealed, tdf: { segmentHash: "GMAC" } }).then(() =>
      sealed.end(),
    ),
  ]);
  const opened = new PassThrough();
  const [found] = await Promise.all([
    buffer(opened),
    open({ input: Readable.from([bytes]), output: opened }).then(() => opened.end()),
  ]);
  expect(found.equals(plain)).toBe(true);
});

test("every share is needed, and any key of a share opens it", async () => {
  const plain = randomBytes(100);
  await seal(plain, { tdf: { keys: [["rsa", "other"], ["ec"]] } }, keys.rsa, keys.ec, keys.other);
  for (const held of [
    [keys.rsa, keys.ec],
    [keys.other, keys.ec],
  ]) {
    await open({}, ...held);
    expect(readFileSync(at("opened")).equals(plain)).toBe(true);
  }
  for (const held of [[keys.rsa, keys.other], [keys.ec]]) expect(await failureOf(open({}, ...held))).toBe("invalid");
  expect(await failureOf(seal(plain, { tdf: { keys: [[]] } }))).toBe("invalid");
});

test("a rewrap replaces the keys, and keeps policy, binding and payload", async () => {
  const plain = randomBytes(2_500_000);
  const sealed = await seal(plain);
  const before = partsOf(readFileSync(at("sealed")));
  const request = { profile, input: at("sealed"), output: at("sealed"), newKeyReference: "ec", replace: true } as const;
  await enforcerWith(keys.rsa, keys.ec).rewrap(request);
  const after = partsOf(readFileSync(at("sealed")));
  expect(after.manifest.encryptionInformation.policy).toBe(before.manifest.encryptionInformation.policy);
  expect(readFileSync(at("sealed")).subarray(0, 2_500_000)).toHaveLength(2_500_000);
  expect(await failureOf(open())).toBe("invalid");
  await open({}, keys.ec);
  expect(readFileSync(at("opened")).equals(plain)).toBe(true);
  expect(platform.registrations.at(-1)).toMatchObject({ operation: "rewrap", key_reference: "ec" });
  expect(JSON.parse(after.manifest.assertions[0].statement.value).binding.decision_id).toBe(sealed.decisionId);
});

test.each<[string, object, string?]>([
  ["a label of other letters", { labels: ["Confidential"] }],
  ["a label with a slash", { labels: ["a/b"] }],
  ["a key that is not here", { keyReference: "unknown" }],
])("%s is refused", async (_, options) => {
  rmSync(at("sealed"), { force: true });
  expect(await failureOf(seal(Buffer.from("secret"), options))).toBe("invalid");
  expect(readdirSync(folder)).not.toContain("sealed");
});

test("a plan's TDF key must be the one that wraps, and its attribute values are in the policy", async () => {
  const { planKeyAccess } = platform;
  const fqn = "https://example.com/attr/department/value/finance";
  const tdfKey = { url: "https://kas.example.com", kid: "rsa", algorithm: "rsa:2048", attributeFqns: [fqn] };
  using _ = vi.spyOn(platform, "planKeyAccess").mockImplementation(async (question) => {
    const decision = await planKeyAccess(question);
    return { ...decision, plan: { ...decision.plan, tdfKey } };
  });
  await seal(randomBytes(10));
  const { policy } = partsOf(readFileSync(at("sealed"))).manifest.encryptionInformation;
  const { dataAttributes } = JSON.parse(Buffer.from(policy, "base64").toString()).body;
  expect(dataAttributes.map(({ attribute }: { attribute: string }) => attribute)).toEqual([
    expect.stringMatching("^https://example.com/attr/decision/value/"),
    "https://example.com/attr/label/value/confidential",
    fqn,
  ]);
  await open();
  expect(readFileSync(at("opened")).equals(readFileSync(at("plain")))).toBe(true);
  await expect(seal(randomBytes(10), {}, keys.other)).rejects.toMatchObject({
    failure: "not_permitted",
    message: expect.stringContaining("the plan is for the TDF key rsa of https://kas.example.com"),
  });
});

test("a rewrap is refused if the file's policy lacks an attribute value of the plan", async () => {
  const { planKeyAccess } = platform;
  const fqn = "https://example.com/attr/department/value/finance";
  const tdfKey = { url: "https://kas.example.com", kid: "other", algorithm: "rsa:2048", attributeFqns: [fqn] };
  const rewrap = (...with_: TdfKey[]) =>
    enforcerWith(...with_).rewrap({ profile, input: at("sealed"), output: at("again"), newKeyReference: "other" });
  await seal(randomBytes(10));
  using _ = vi.spyOn(platform, "planKeyAccess").mockImplementation(async (question) => {
    const decision = await planKeyAccess(question);
    return question.operation === "wrap" ? { ...decision, plan: { ...decision.plan, tdfKey } } : decision;
  });
  await expect(rewrap(keys.rsa, keys.other)).rejects.toMatchObject({
    failure: "not_permitted",
    message: expect.stringContaining(`the plan demands ${fqn}`),
  });
  expect(readdirSync(folder)).not.toContain("again");
  await seal(randomBytes(10), {}, keys.other);
  await rewrap(keys.other);
});

test("without a namespace nothing is protected", async () => {
  const client = { client: platform, workload: { application: "test" }, spoolDirectory: at("spool") };
  const request = { profile, input: at("rsa.pub"), output: at("none"), resource } as const;
  expect(await failureOf(createEnforcer({ ...client, keys: [keys.rsa] }).protect(request))).toBe("invalid");
});

describe("a changed file is refused, and leaves nothing", async () => {
  const plain = randomBytes(1000);
  await seal(plain);
  const whole = readFileSync(at("sealed"));
  const refusal = async (bytes: Uint8Array, ...with_: TdfKey[]) => {
    writeFileSync(at("changed"), bytes);
    const failure = await failureOf(open({ input: at("changed"), output: at("no") }, ...with_));
    expect(readdirSync(folder).filter((name) => name.includes("no"))).toEqual([]);
    return failure;
  };

  test("any byte of it", async () => {
    for (let n = 0; n < 200; n++) {
      const changed = Buffer.from(whole);
      const place = Math.floor((n * whole.length) / 200);
      changed[place] = (changed[place] as number) ^ (1 << (n % 8));
      expect(["not_authentic", "invalid"], `byte ${place}`).toContain(await refusal(changed));
    }
  });

  test("its size", async () => {
    for (const bytes of [whole.subarray(0, -1), Buffer.concat([whole, Buffer.alloc(1)]), Buffer.alloc(0)])
      expect(await refusal(bytes)).toBe("not_authentic");
  });

  /** With another manifest, of the same length if that is not canonical JSON. */
  const remade = (change: (manifest: Parsed) => void) => {
    const { start, end, manifest } = partsOf(whole);
    change(manifest);
    const bytes = Buffer.from(JSON.stringify(manifest));
    const file = Buffer.concat([whole.subarray(0, start), bytes, whole.subarray(end)]);
    const grown = bytes.length - (end - start);
    const entry = file.lastIndexOf(Buffer.from("504b0102", "hex"));
    for (const place of [start + bytes.length + 4, entry + 16]) {
      file.writeUInt32LE(crc32(bytes), place);
      for (const size of [place + 4, place + 8]) file.writeUInt32LE(bytes.length, size);
    }
    file.writeUInt32LE(file.readUInt32LE(file.length - 6) + grown, file.length - 6);
    return file;
  };

  test("except a manifest that was made again as it was", async () => {
    writeFileSync(
      at("same"),
      remade(() => {}),
    );
    await open({ input: at("same") });
  });

  const information = (manifest: Parsed) => manifest.encryptionInformation;
  test.each<[string, (manifest: Parsed) => void]>([
    ["the assertion left out", (manifest) => delete manifest.assertions],
    ["another schema version", (manifest) => (manifest.schemaVersion = "4.3.1")],
    ["another media type", (manifest) => (manifest.payload.mimeType = "text/plain")],
    ["another address", (manifest) => (information(manifest).keyAccess[0].url = "https://kas.example.org")],
    ["another policy", (manifest) => (information(manifest).policy = Buffer.from("{}").toString("base64"))],
    ["another policy binding", (manifest) => (information(manifest).keyAccess[0].policyBinding.hash = "AA==")],
    [
      "another algorithm of segments",
      (manifest) => (information(manifest).integrityInformation.segmentHashAlg = "GMAC"),
    ],
    ["no segments", (manifest) => (information(manifest).integrityInformation.segments = [])],
    ["another root signature", (manifest) => (information(manifest).integrityInformation.rootSignature.sig = "AA==")],
    ["another member", (manifest) => (manifest.more = 1)],
    ["a second assertion", (manifest) => manifest.assertions.push({ ...manifest.assertions[0], id: "more" })],
    [
      "another resource",
      ({ assertions: [{ statement }] }) => (statement.value = statement.value.replace("cust-1", "cust-2")),
    ],
    [
      "another signature",
      ({ assertions: [{ binding }] }) => (binding.signature = binding.signature.replace(/.$/, "-")),
    ],
  ])("%s", async (_, change) => {
    expect(await refusal(remade(change))).toBe("not_authentic");
  });

  test("parts of another file", async () => {
    await seal(randomBytes(1000));
    const other = readFileSync(at("sealed"));
    const [mine, theirs] = [partsOf(whole), partsOf(other)];
    expect(mine.start).toBe(theirs.start);
    const payload = Buffer.concat([other.subarray(0, theirs.start), whole.subarray(mine.start)]);
    expect(await refusal(payload)).toBe("not_authentic");
    for (const member of ["policy", "keyAccess", "integrityInformation"])
      expect(
        await refusal(
          remade(
            (manifest) => (manifest.encryptionInformation[member] = theirs.manifest.encryptionInformation[member]),
          ),
        ),
        member,
      ).toBe("not_authentic");
    expect(await refusal(remade((manifest) => (manifest.assertions = theirs.manifest.assertions)))).toBe(
      "not_authentic",
    );
  });

  /** The file as another program writes it: without our assertion, and with another policy. */
  function foreignWith(uuid: string, attributes: readonly string[]) {
    const dataAttributes = attributes.map((attribute) => ({ attribute }));
    return foreignOf(Buffer.from(JSON.stringify({ uuid, body: { dataAttributes, dissem: [] } })).toString("base64"));
  }

  async function foreignOf(policy: string) {
    const { keyAccess } = partsOf(whole).manifest.encryptionInformation;
    const share = (await keys.rsa.unwrapShare?.(keyAccess[0])) as Uint8Array;
    const hash = createHmac("sha256", share).update(policy).digest("base64");
    return remade((manifest) => {
      delete manifest.assertions;
      information(manifest).policy = policy;
      information(manifest).keyAccess[0].policyBinding.hash = hash;
    });
  }

  test("a file without our assertion opens as a foreign one only, and is reported so", async () => {
    const attributes = [
      "https://Example.com/attr/Label/value/Confidential",
      "https://example.org/attr/Class/value/Secret",
      "https://example.com/attr/decision/value/approved",
    ];
    writeFileSync(at("foreign"), await foreignWith("8d5a45f2-6f4c-4d0d-9d4e-5f5f7c2e9a11", attributes));
    const request = { input: at("foreign"), output: at("opened") };
    expect(await failureOf(open(request))).toBe("not_authentic");
    expect(await failureOf(open({ ...request, allowForeign: true }))).toBe("invalid");
    expect(await open({ ...request, allowForeign: true, resource })).toMatchObject({ isForeign: true });
    expect(readFileSync(at("opened")).equals(plain)).toBe(true);
    const event = [...platform.events.values()].at(-1);
    // As a key access service sees them.
    expect(event?.labels).toEqual(["confidential", ...attributes.slice(1).map((name) => name.toLowerCase())].sort());
    const rewrap = { profile, input: at("foreign"), output: at("no"), newKeyReference: "ec" } as const;
    expect(await failureOf(enforcerWith(keys.rsa, keys.ec).rewrap(rewrap))).toBe("not_authentic");
  });

  const foreignRefusal = async (file: Uint8Array) => {
    writeFileSync(at("foreign"), file);
    return failureOf(open({ input: at("foreign"), allowForeign: true, resource }));
  };

  test("a container in which another reader finds other entries is refused", async () => {
    const file = await foreignWith("8d5a45f2", []);
    const [end, body] = [file.subarray(-22), file.subarray(0, -22)];
    const directory = body.subarray(end.readUInt32LE(16));
    expect(await foreignRefusal(file)).toBeUndefined();
    /** The records of ZIP64, which name a directory. */
    const wide = (directoryAt: number, recordAt: number) => {
      const bytes = Buffer.alloc(76);
      bytes.writeUInt32LE(0x06064b50, 0);
      for (const [place, value] of [
        [4, 44],
        [24, 2],
        [32, 2],
        [40, directory.length],
        [48, directoryAt],
        [64, recordAt],
      ] as const)
        bytes.writeBigUInt64LE(BigInt(value), place);
      bytes.writeUInt32LE(0x07064b50, 56);
      return bytes;
    };
    expect(await foreignRefusal(Buffer.concat([body, wide(end.readUInt32LE(16), body.length), end]))).toBeUndefined();
    const changed = (place: number, value: number, bytes = file) => {
      const copy = Buffer.from(bytes);
      copy.writeUInt16LE(value, place);
      return copy;
    };
    const more = Buffer.concat([body, directory]);
    // The payload's size, twice in ZIP64 fields after its name.
    const size = directory.readUInt32LE(20);
    const field = Buffer.from([1, 0, 16, 0, size, size >> 8, 0, 0, 0, 0, 0, 0, size, size >> 8, 0, 0, 0, 0, 0, 0]);
    const named = 46 + directory.readUInt16LE(28);
    const twoSizes = Buffer.concat([directory.subarray(0, named), field, field, directory.subarray(named)]);
    twoSizes.fill(255, 20, 28);
    twoSizes.writeUInt16LE(2 * field.length, 30);
    const ended = Buffer.from(end);
    ended.writeUInt32LE(twoSizes.length, 12);
    for (const [name, bytes] of Object.entries({
      "a second directory": Buffer.concat([more, wide(body.length, more.length), end]),
      "a directory that is not at the end": Buffer.concat([body, Buffer.from("more"), end]),
      "two counts of entries": changed(file.length - 14, 1),
      "another name before the payload": changed(30, 0x3131),
      "another method before the payload": changed(8, 8),
      "two sizes of an entry": Buffer.concat([body.subarray(0, -directory.length), twoSizes, ended]),
    }))
      expect(await foreignRefusal(bytes), name).toBe("not_authentic");
  });

  test("a policy or manifest with two readings is refused", async () => {
    const policy = JSON.stringify({ uuid: "8d5a45f2", body: { dataAttributes: null, dissem: null } });
    const base64 = (text: string) => Buffer.from(text).toString("base64");
    expect(await foreignRefusal(await foreignOf(base64(policy)))).toBeUndefined();
    for (const text of [
      base64(policy).replace(/=*$/, ""),
      `${base64(policy)}\n`,
      base64(policy.replace('"8d5a45f2"', "null")),
      base64('{"uuid":"a","body":true}'),
      base64(policy.replace("null}", "false}")),
      base64(policy.replace("null,", "{},")),
      base64(policy.replace("null,", '[{"attribute":"\\ud800"}],')),
      Buffer.from(policy.replace("8d5a45f2", "\xff"), "latin1").toString("base64"),
    ])
      expect(await foreignRefusal(await foreignOf(text)), text).toBe("not_authentic");
    for (const change of [
      (manifest: Parsed) => (manifest.assertions = null),
      (manifest: Parsed) => (manifest.schemaVersion = ["4.3.0"]),
      (manifest: Parsed) => (manifest.more = "\ud800"),
    ])
      expect(await refusal(remade(change))).toBe("not_authentic");
  });

  test("a file of ours without its assertion is refused as a foreign one", async () => {
    const { policy } = information(partsOf(whole).manifest);
    const { uuid, body } = JSON.parse(Buffer.from(policy, "base64").toString());
    const attributes = body.dataAttributes.map(({ attribute }: { attribute: string }) => attribute);
    for (const file of [
      remade((manifest) => delete manifest.assertions),
      remade((manifest) => (manifest.assertions = [{ id: "theirs", statement: {} }])),
      await foreignWith(uuid.toUpperCase(), [...attributes].reverse()),
    ]) {
      writeFileSync(at("foreign"), file);
      const request = { input: at("foreign"), allowForeign: true, resource: { kind: "harmless" } };
      expect(await failureOf(open(request))).toBe("not_authentic");
    }
  });
});

test.each<[string, object]>([
  ["a short RSA key", { kty: "RSA", n: Buffer.alloc(128, 255).toString("base64url"), e: "AQAB" }],
  ["another type", { kty: "oct", k: "AA" }],
])("%s is no TDF key", (_, jwk) => {
  expect(() => localTdfKey("name", { ...jwk }, { url: "https://kas.example.com" })).toThrow(EnforcementError);
});
