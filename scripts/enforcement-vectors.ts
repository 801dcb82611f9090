/**
 * Makes `clients/conformance/vectors/committed-envelope.json`: envelopes that open, and changed ones that must not,
 * each with its reason. `envelope.json` beside it has those of the old form, without a commitment to the content key;
 * earlier versions made it, and it is kept unchanged.
 */
import { createHash, randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  type EnvelopeHeader,
  encodeHeader,
  keyAssociatedData,
  keyCommitment,
  payloadAssociatedData,
} from "../clients/typescript/src/enforce/envelope.ts";
import { localKey } from "../clients/typescript/src/enforce/keys.ts";
import { encryptSegments, type StreamingAead, segmentSizes } from "../clients/typescript/src/enforce/streaming-aead.ts";

interface Parts {
  readonly header: EnvelopeHeader;
  readonly payload: Buffer;
  readonly about: Readonly<Record<string, string | number>>;
}

const key = randomBytes(32);
const reference = "local-vector-key";
const provider = localKey(reference, key);

/** `committed` replaces the true key commitment of the binding. */
async function make(
  aead: StreamingAead,
  plaintextBytes: number,
  decision: string,
  committed?: { readonly key_commitment?: string },
): Promise<Parts> {
  const contentKey = randomBytes(32);
  const binding = {
    aead,
    decision_id: `01890a5d-ac96-774b-bcce-b302099a80${decision}`,
    labels: ["confidential", 'über\u2028\u0001"\\'],
    policy_revision: "sha256:5f1e",
    resource: { id: "cust-8841 \u{1f512}", kind: "customer-record", mime_type: "application/pdf" },
    ...(committed ?? { key_commitment: keyCommitment(contentKey) }),
  };
  const keyBlock = { decision_id: binding.decision_id.replace("80", "90"), provider: "local", reference };
  const wrapped = await provider.wrap(contentKey, keyAssociatedData(binding, keyBlock));
  const plaintext = Buffer.from(Array.from({ length: plaintextBytes }, (_, i) => i % 251));
  const associatedData = payloadAssociatedData(binding);
  const pieces: Uint8Array[] = [];
  for await (const piece of encryptSegments(once(plaintext), { aead, key: contentKey, associatedData }))
    pieces.push(Buffer.from(piece));
  return {
    header: { binding, key: { ...keyBlock, wrapped } },
    payload: Buffer.concat(pieces),
    about: {
      plaintext_size: plaintextBytes,
      content_key: contentKey.toString("hex"),
      key_commitment: keyCommitment(contentKey),
      payload_associated_data: associatedData.toString("hex"),
      key_associated_data: keyAssociatedData(binding, keyBlock).toString("hex"),
    },
  };
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

const whole = ({ header, payload }: Pick<Parts, "header" | "payload">) =>
  Buffer.concat([encodeHeader(header), payload]);
const segment = segmentSizes.AES256_GCM_HKDF_4KB;
const small = await make("AES256_GCM_HKDF_1MB", 100, "01");
const empty = await make("AES256_GCM_HKDF_4KB", 0, "02");
const several = await make("AES256_GCM_HKDF_4KB", 2 * segment, "03");
const [a, b, c] = [0, 1, 2].map((n) => several.payload.subarray(n * segment, (n + 1) * segment)) as [
  Buffer,
  Buffer,
  Buffer,
];
const { binding, key: wrappedKey } = small.header;
const another = `hmac-sha256:${"00".repeat(32)}`;
const ofTheOldForm = await make("AES256_GCM_HKDF_4KB", 100, "04", {});
// Valid in everything else: only the commitment shows that this is not the content key.
const toAnotherKey = await make("AES256_GCM_HKDF_4KB", 100, "05", { key_commitment: another });
const withCommitment = (parts: Parts, key_commitment: string) =>
  whole({ ...parts, header: { ...parts.header, binding: { ...parts.header.binding, key_commitment } } });
const { key_commitment: _, ...uncommitted } = binding;

/** A header with its text changed, in place. */
function respelt(spell: (text: string) => string): Buffer {
  const bytes = Buffer.from(spell(encodeHeader(small.header).subarray(29).toString()));
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([Buffer.from("svc-platform-envelope/v1\n"), length, bytes, small.payload]);
}

const flipped = (at: number) => {
  const bytes = whole(small);
  bytes[at] = (bytes[at] as number) ^ 1;
  return bytes;
};

const refused: readonly (readonly [string, Buffer])[] = [
  ["another format line", flipped(0)],
  ["a changed byte of the last tag", flipped(whole(small).length - 1)],
  ["the payload of another artifact", whole({ ...small, payload: empty.payload })],
  ["the key block of another artifact", whole({ ...small, header: { binding, key: several.header.key } })],
  [
    "another decision",
    whole({ ...small, header: { binding: { ...binding, decision_id: "another" }, key: wrappedKey } }),
  ],
  [
    "another policy revision",
    whole({ ...small, header: { binding: { ...binding, policy_revision: "" }, key: wrappedKey } }),
  ],
  ["a label left out", whole({ ...small, header: { binding: { ...binding, labels: [] }, key: wrappedKey } })],
  [
    "another resource",
    whole({ ...small, header: { binding: { ...binding, resource: { kind: "x" } }, key: wrappedKey } }),
  ],
  [
    "another segment size",
    whole({ ...small, header: { binding: { ...binding, aead: "AES256_GCM_HKDF_4KB" }, key: wrappedKey } }),
  ],
  ["another key decision", whole({ ...small, header: { binding, key: { ...wrappedKey, decision_id: "another" } } })],
  ["a space in the header", respelt((text) => text.replace(":", ": "))],
  ["a member twice", respelt((text) => text.replace('{"aead"', '{"aead":"AES256_GCM_HKDF_4KB","aead"'))],
  ["a member that is not known", respelt((text) => text.replace(/}$/, ',"z":""}'))],
  ["an escape that is not needed", respelt((text) => text.replace("customer", "\\u0063ustomer"))],
  ["a header of no bytes", respelt(() => "")],
  ["segments swapped", whole({ ...several, payload: Buffer.concat([a, c, b]) })],
  ["a segment left out", whole({ ...several, payload: Buffer.concat([a, c]) })],
  ["the last segment cut off", whole({ ...several, payload: Buffer.concat([a, b]) })],
  ["a byte cut off", whole({ ...several, payload: several.payload.subarray(0, -1) })],
  ["a byte added", whole({ ...several, payload: Buffer.concat([several.payload, Buffer.alloc(1)]) })],
  ["no payload", whole({ ...small, payload: Buffer.alloc(0) })],
  ["a commitment to another content key", whole(toAnotherKey)],
  ["another commitment", withCommitment(small, another)],
  ["the commitment left out", whole({ ...small, header: { binding: uncommitted, key: wrappedKey } })],
  ["a commitment put into a header of the old form", withCommitment(ofTheOldForm, another)],
  [
    "a commitment in capitals",
    respelt((text) => text.replace(/hmac-sha256:\w+/, (it) => `hmac-sha256:${it.slice(12).toUpperCase()}`)),
  ],
  ["a commitment of another kind", respelt((text) => text.replace("hmac-sha256:", "sha256:"))],
  ["a reference that steers a terminal", respelt((text) => text.replace(reference, `${reference}\\u001b]52;`))],
];

const vectors = {
  note: "Byte i of a plaintext is i mod 251. A vector with a reason in `refused` must not open.",
  key: { kty: "oct", alg: "A256GCM", kid: reference, k: key.toString("base64url") },
  vectors: [
    ...[small, empty, several].map((parts) => ({ ...parts.about, envelope: whole(parts).toString("base64") })),
    ...refused.map(([reason, bytes]) => ({ refused: reason, envelope: bytes.toString("base64") })),
  ],
};
const path = join(import.meta.dirname, "../clients/conformance/vectors/committed-envelope.json");
writeFileSync(path, `${JSON.stringify(vectors, undefined, 1)}\n`);
process.stdout.write(
  `${path}: ${vectors.vectors.length} vectors, ${createHash("sha256").update(key).digest("hex").slice(0, 8)}\n`,
);
