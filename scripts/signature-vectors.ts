/**
 * Makes `detached-signature.json` (the old form) and `signed-statement.json` in `clients/conformance/vectors`: signatures
 * that verify, and changed ones, each with its reason.
 */
import { createHash, generateKeyPairSync, sign } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import canonicalize from "canonicalize";
import { encodeSignature, preAuthenticationEncoding } from "../clients/typescript/src/enforce/detached-signature.ts";
import { localSigningKey } from "../clients/typescript/src/enforce/signing-keys.ts";

const oldType = "application/vnd.svc-platform.detached-signature.v1+json";

// RFC 8032 section 7.1, tests 1 and 2. Ed25519 is deterministic, so this file is too.
const keys = (
  [
    ["nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A", "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"],
    ["TM0Imyj_ltqdtsNG7BFOD1uKMZ81q6Yk2oz27U-4pvs", "PUAXw-hDiVqStwqnTRt-vJyYLM8uxJaMwM1V8Sr0Zgw"],
  ] as const
).map(([d, x], n) => ({ kty: "OKP", crv: "Ed25519", alg: "EdDSA", kid: `local-signer-${n + 1}`, x, d }));
const [signer, other] = keys as [(typeof keys)[0], (typeof keys)[0]];

const pattern = (sizeBytes: number) => Buffer.from(Array.from({ length: sizeBytes }, (_, i) => i % 251));
const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64");
const canonical = (value: unknown) => Buffer.from(canonicalize(value) ?? "");

const headerOf = (sizeBytes: number) => ({
  binding: {
    content_digest: `sha256:${createHash("sha256").update(pattern(sizeBytes)).digest("hex")}`,
    content_size_bytes: sizeBytes,
    decision_id: "01890a5d-ac96-774b-bcce-b302099a8057",
    labels: ["confidential", 'über\u2028\u0001"\\'],
    policy_revision: "sha256:5f1e",
    resource: { id: "cust-8841 \u{1f512}", kind: "customer-record", mime_type: "application/pdf" },
  },
  key: { decision_id: "01890a5d-ac96-774b-bcce-b302099a8058", reference: signer.kid },
});
type Header = ReturnType<typeof headerOf>;

function signed(payload: Buffer, { by = signer, type = oldType, keyid = signer.kid } = {}) {
  const sig = sign(null, preAuthenticationEncoding(type, payload), { key: by, format: "jwk" });
  return { payload: base64(payload), payloadType: type, signatures: [{ keyid, sig: base64(sig) }] };
}

const header = headerOf(100);
const whole = signed(canonical(header));
const [{ keyid, sig }] = whole.signatures as [{ keyid: string; sig: string }];
/** The signature of the first header on another one. */
const moved = (changed: object) => ({ ...whole, payload: base64(canonical(changed)) });
const bound = (binding: Partial<Header["binding"]> & object) => ({
  ...header,
  binding: { ...header.binding, ...binding },
});
/** Signed by the right key, but not a valid header. */
const spelt = (spell: (text: string) => string) => signed(Buffer.from(spell(canonical(header).toString())));
const withSig = (text: string) => ({ ...whole, signatures: [{ keyid, sig: text }] });

/** S + L in place of S (RFC 8032 section 5.1.7 demands S < L). */
function malleated(): string {
  const bytes = Buffer.from(sig, "base64");
  const order = 2n ** 252n + 27742317777372353535851937790883648493n;
  const s = BigInt(`0x${Buffer.from(bytes.subarray(32)).reverse().toString("hex")}`) + order;
  return base64(Buffer.concat([bytes.subarray(0, 32), Buffer.from(s.toString(16).padStart(64, "0"), "hex").reverse()]));
}

const changedHeaders: readonly (readonly [string, object])[] = [
  ["another decision", bound({ decision_id: "another" })],
  ["another policy revision", bound({ policy_revision: "" })],
  ["a label left out", bound({ labels: [] })],
  ["another resource", bound({ resource: { ...header.binding.resource, id: "cust-1" } })],
  ["another digest", bound({ content_digest: headerOf(99).binding.content_digest })],
  ["another size", bound({ content_size_bytes: 101 })],
  ["another key decision", { ...header, key: { ...header.key, decision_id: "another" } }],
];
const refused: readonly (readonly [string, object | string])[] = [
  ...changedHeaders.map(([reason, changed]) => [reason, moved(changed)] as const),
  ["signed by another key", signed(canonical(header), { by: other })],
  ["a key id that is not the header's", { ...whole, signatures: [{ keyid: other.kid, sig }] }],
  ["another payload type", signed(canonical(header), { type: "application/vnd.in-toto+json" })],
  [
    "the payload signed as it is, without DSSE's encoding",
    withSig(base64(sign(null, canonical(header), { key: signer, format: "jwk" }))),
  ],
  ["a signature with S not below the order", withSig(malleated())],
  ["a signature cut short", withSig(base64(Buffer.from(sig, "base64").subarray(0, 63)))],
  ["no bytes of signature", withSig("")],
  ["base64 with other bits behind its end", withSig(sig.replace(/.==$/, (end) => `${end[0] === "A" ? "B" : "D"}==`))],
  ["base64 without padding", withSig(sig.replaceAll("=", ""))],
  ["no signature", { ...whole, signatures: [] }],
  ["two signatures", { ...whole, signatures: [...whole.signatures, ...whole.signatures] }],
  ["a member that is not known, outside", { ...whole, more: "" }],
  ["a member that is not known, signed", spelt((text) => text.replace(/}$/, ',"z":""}'))],
  ["a space in the header, signed", spelt((text) => text.replace(":", ": "))],
  ["a member twice, signed", spelt((text) => text.replace('"labels"', '"labels":[],"labels"'))],
  ["a size below zero, signed", signed(canonical(bound({ content_size_bytes: -1 })))],
  ["a digest of another kind, signed", signed(canonical(bound({ content_digest: "md5:00" })))],
  ["a space outside", canonical(whole).toString().replace(":", ": ")],
  ["a line feed at the end", `${canonical(whole)}\n`],
  ["cut short", canonical(whole).toString().slice(0, -1)],
  ["nothing", ""],
];

const note =
  "Byte i of the data is i mod 251. A vector with a reason in `refused` must not verify, with 100 bytes of data.";
const vectorOf = ([reason, file]: readonly [string, object | string]) => ({
  refused: reason,
  signature: base64(typeof file === "string" ? Buffer.from(file) : canonical(file)),
});

function write(name: string, content: { readonly vectors: readonly object[] }): void {
  const path = join(import.meta.dirname, "../clients/conformance/vectors", name);
  writeFileSync(path, `${JSON.stringify({ note, ...content }, undefined, 1)}\n`);
  process.stdout.write(`${path}: ${content.vectors.length} vectors\n`);
}

const { d: _, ...publicKey } = signer;
write("detached-signature.json", {
  key: publicKey,
  vectors: [
    ...[0, 100, 10_000].map((sizeBytes) => ({
      data_size: sizeBytes,
      signature: base64(canonical(signed(canonical(headerOf(sizeBytes))))),
    })),
    ...refused.map(vectorOf),
  ],
} as { vectors: object[] });

// ECDSA is not deterministic: each run makes another key and other signatures.
const pair = generateKeyPairSync("ec", { namedCurve: "P-256" });
const ecdsa = { ...pair.privateKey.export({ format: "jwk" }), alg: "ES256", kid: "local-signer-3" };
const headerOfKey = (sizeBytes: number, { kid = "" }: { kid?: string }) => ({
  ...headerOf(sizeBytes),
  key: { ...header.key, reference: kid },
});
const statements: { readonly data_size: number; readonly signature: string }[] = [];
for (const jwk of [signer, ecdsa])
  for (const isBundle of [false, true])
    for (const sizeBytes of [0, 100]) {
      const made = await encodeSignature(headerOfKey(sizeBytes, jwk), localSigningKey(jwk.kid, jwk), isBundle);
      statements.push({ data_size: sizeBytes, signature: base64(made) });
    }
type Dsse = typeof whole;
const parsed = (index: number) => JSON.parse(Buffer.from(statements[index]?.signature ?? "", "base64").toString());
const plain: Dsse = parsed(1);
const bundle: { dsseEnvelope: Dsse; mediaType: string; verificationMaterial: object } = parsed(3);
const statement = JSON.parse(Buffer.from(plain.payload, "base64").toString());
const restated = (changed: object, payloadType = plain.payloadType) =>
  signed(canonical({ ...statement, ...changed }), { type: payloadType, keyid: "" });
const [subject] = statement.subject;
const refusedStatements: readonly (readonly [string, object | string])[] = [
  ["a key id", { ...plain, signatures: plain.signatures.map((found) => ({ ...found, keyid: signer.kid })) }],
  ["another payload type", { ...plain, payloadType: oldType }],
  ["another type of statement, signed", restated({ _type: "https://in-toto.io/Statement/v0.1" })],
  ["another type of predicate, signed", restated({ predicateType: "https://slsa.dev/provenance/v1" })],
  ["a subject of another digest, signed", restated({ subject: [{ ...subject, digest: { sha256: "00".repeat(32) } }] })],
  ["a subject of another name, signed", restated({ subject: [{ ...subject, name: "another" }] })],
  ["two subjects, signed", restated({ subject: [subject, subject] })],
  ["no subject, signed", restated({ subject: [] })],
  ["a statement of the old payload type, signed", restated({}, oldType)],
  ["an old header as a statement, signed", signed(canonical(header), { type: plain.payloadType, keyid: "" })],
  ["a predicate moved", { ...plain, payload: base64(canonical({ ...statement, predicate: bound({ labels: [] }) })) }],
  ["a bundle with another hint", { ...bundle, verificationMaterial: { publicKey: { hint: other.kid } } }],
  ["a bundle with no hint", { ...bundle, verificationMaterial: { publicKey: { hint: null } } }],
  ["a bundle of another type", { ...bundle, mediaType: "application/vnd.dev.sigstore.bundle.v0.2+json" }],
  ["a bundle with more material", { ...bundle, verificationMaterial: { publicKey: { hint: signer.kid }, more: "" } }],
  ["a bundle of the old form", { ...bundle, dsseEnvelope: whole }],
  ["a bundle with a space", canonical(bundle).toString().replace(":", ": ")],
];
const { d: __, ...ecdsaPublicKey } = ecdsa;
write("signed-statement.json", {
  keys: [publicKey, ecdsaPublicKey],
  vectors: [...statements, ...refusedStatements.map(vectorOf)],
} as { vectors: object[] });
