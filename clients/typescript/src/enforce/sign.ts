/**
 * Profile `detached_signature`: data stays unchanged, and a file beside it names the decision under which it was
 * signed.
 */
import { stat } from "node:fs/promises";
import { digestOf, digestOfBytes, type Input, type Output, openFile, rereadable, streamed } from "./data.ts";
import {
  encodeSignature,
  readSignature,
  requireContent,
  requireSignature,
  type SignatureHeader,
} from "./detached-signature.ts";
import { EnforcementError } from "./errors.ts";
import { chunksOf } from "./files.ts";
import { access, type OpenOptions, requireResource } from "./open.ts";
import { type Context, type RequestOptions, signingKeyOf, usesOf } from "./operation.ts";
import { counted, type Making, type Outcome, type ProtectOptions, produce, progress } from "./protect.ts";
import { makingOf, type RewrapOptions } from "./rewrap.ts";
import type { SigningKey } from "./signing-keys.ts";

/** Signs data. `output` is the signature file. */
export async function signData(context: Context, options: Omit<ProtectOptions, "aead">): Promise<Outcome> {
  const { input, output, resource } = options;
  const labels = [...new Set(options.labels)].sort();
  const key = requireSigner(signingKeyOf(context, options.keyReference));
  await requireOther(output, [input]);
  const content = await contentOf(input, options);
  const named = { content_digest: content.digest, content_size_bytes: content.sizeBytes };
  const making: Making = {
    operation: "protect",
    profile: "detached_signature",
    resource,
    labels,
    keys: usesOf("wrap", [key]),
    about: named,
  };
  return produce(context, options, making, (sink, { plan, keys }) => {
    const { decisionId: decision_id, policyRevision: policy_revision } = plan;
    const binding = { ...named, decision_id, labels, policy_revision, resource };
    const header = { binding, key: { decision_id: keys[0]?.decisionId ?? "", reference: key.reference } };
    return writeSignature(header, key, sink, options.bundle === true);
  });
}

/** Verifies data, and outputs what is signed. */
export async function openSigned(
  context: Context,
  options: OpenOptions & { readonly signature: string },
): Promise<Outcome> {
  const { input, output, signature: path } = options;
  await requireOther(output, [path]);
  const signed = await readSignature(path);
  const { binding, key } = signed.header;
  requireResource(binding, options.resource);
  const signer = signingKeyOf(context, key.reference);
  const { content_digest: contentDigest } = binding;
  const opening = {
    profile: "detached_signature",
    binding,
    artifact: signed.artifact,
    contentDigest,
    keys: [signer],
  } as const;
  // Data cannot be taken back from a stream, so it gets only data that was verified completely.
  const isTwice = typeof output !== "string";
  const file = typeof input === "string" ? await openFile(input) : undefined;
  try {
    const sizeBytes = file === undefined ? undefined : (await file.stat()).size;
    const count = progress(options, sizeBytes === undefined ? undefined : sizeBytes * (isTwice ? 2 : 1));
    const verified = (data: AsyncIterable<Uint8Array>) =>
      counted(requireContent(data, binding), (piece) => count(piece.length));
    return await access(context, options, opening, async (release) => {
      await requireSignature(signed, signer);
      const data = file === undefined ? streamed(input as AsyncIterable<Uint8Array>) : chunksOf(file);
      const passOn = (pieces: AsyncIterable<Uint8Array>) =>
        release(async (sink) => {
          for await (const piece of verified(pieces)) await sink.write(piece);
        });
      if (!isTwice) return passOn(data);
      // A copy that no other process can change.
      const copy = await rereadable(verified(data), context.directory);
      try {
        return await passOn(chunksOf(copy));
      } finally {
        await copy.close();
      }
    });
  } finally {
    await file?.close();
  }
}

/** Replaces a verified signature with one of another key. Does not read the data. */
export async function signAnew(context: Context, options: RewrapOptions): Promise<Outcome> {
  const { input } = options;
  if (typeof input !== "string") throw new EnforcementError("invalid", "a signature is read from a file");
  const signed = await readSignature(input);
  const { binding, key } = signed.header;
  requireResource(binding, options.resource);
  const oldKey = signingKeyOf(context, key.reference);
  const newKey = requireSigner(signingKeyOf(context, options.newKeyReference));
  const { artifact } = signed;
  const named = { profile: "detached_signature", binding, artifact, contentDigest: binding.content_digest } as const;
  const making = await makingOf(options, { ...named, oldKeys: [oldKey], newKeys: [newKey] });
  return produce(context, options, making, async (sink, { keys }) => {
    await requireSignature(signed, oldKey);
    const header = { binding, key: { decision_id: keys[1]?.decisionId ?? "", reference: newKey.reference } };
    return writeSignature(header, newKey, sink, signed.isBundle);
  });
}

async function writeSignature(
  header: SignatureHeader,
  key: SigningKey,
  sink: { write(piece: Uint8Array): Promise<void> },
  isBundle: boolean,
) {
  const bytes = await encodeSignature(header, key, isBundle);
  await sink.write(bytes);
  return digestOfBytes(bytes);
}

function requireSigner(key: SigningKey): SigningKey {
  if (key.sign === undefined) throw new EnforcementError("invalid", `key ${key.reference} verifies only`);
  return key;
}

async function contentOf(input: Input, options: RequestOptions) {
  const file = typeof input === "string" ? await openFile(input) : undefined;
  try {
    const count = progress(options, file === undefined ? undefined : (await file.stat()).size);
    return await digestOf(file ?? streamed(input as AsyncIterable<Uint8Array>), count);
  } finally {
    await file?.close();
  }
}

/** Neither the data nor the signature may be overwritten by the result. */
async function requireOther(output: Output, inputs: readonly Input[]): Promise<void> {
  if (typeof output !== "string") return;
  const taken = await stat(output).catch(() => undefined);
  for (const input of inputs) {
    const found = typeof input === "string" ? await stat(input).catch(() => undefined) : undefined;
    if (taken !== undefined && found?.ino === taken.ino && found.dev === taken.dev)
      throw new EnforcementError("invalid", `${output} is what the output is made of`);
  }
}
