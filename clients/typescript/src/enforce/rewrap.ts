/**
 * Rewrapping: the content key is wrapped with another key; the payload and its binding stay. So a header that commits
 * to the content key still does, and one of the old form still does not.
 */
import { ByteReader } from "./byte-reader.ts";
import { type Digest, Digesting, type Input, type Output, rereadable, unbroken } from "./data.ts";
import { encodeHeader, keyAssociatedData, readHeader, requireContentKey } from "./envelope.ts";
import { EnforcementError } from "./errors.ts";
import { chunksOf } from "./files.ts";
import type { Binding } from "./header.ts";
import { inspect, labelsOf } from "./open.ts";
import { type Context, type RequestOptions, type UsedKey, usesOf, wrappingKeyOf } from "./operation.ts";
import type { Profile, Resource } from "./platform.ts";
import { counted, type LocalProfile, type Located, type Making, type Outcome, produce } from "./protect.ts";
import { previousOf } from "./receipts.ts";
import type { TdfOptions } from "./tdf-manifest.ts";

export interface RewrapOptions extends RequestOptions, Located {
  /** The envelope; or the path of the signature, which is replaced by one of the new key. */
  readonly input: Input;
  readonly output: Output;
  /** Default `envelope`. */
  readonly profile?: LocalProfile;
  /** Reference of the new wrapping or signing key. */
  readonly newKeyReference: string;
  /** For a TDF with several keys: their shares, in place of `newKeyReference`. */
  readonly tdf?: Pick<TdfOptions, "keys">;
  /** The expected resource; any other is refused. Default: the one in the header. */
  readonly resource?: Resource;
  /** Whether to replace an existing output file. Default false. */
  readonly replace?: boolean;
}

/** An artifact whose keys are replaced. */
interface Rewrapping {
  readonly profile: Profile;
  readonly binding: Binding;
  readonly artifact: Digest;
  readonly contentDigest?: string;
  readonly oldKeys: readonly UsedKey[];
  readonly newKeys: readonly UsedKey[];
}

/** The question about an artifact whose keys are replaced, with the receipts of the original. */
export async function makingOf(options: RewrapOptions, rewrapping: Rewrapping): Promise<Making> {
  const { profile, binding, artifact, contentDigest, oldKeys, newKeys } = rewrapping;
  return {
    operation: "rewrap",
    profile,
    resource: binding.resource,
    labels: labelsOf(binding, options),
    keys: [...usesOf("rewrap", oldKeys), ...usesOf("wrap", newKeys)],
    about: {
      artifact_digest: artifact.digest,
      artifact_cid: artifact.cid,
      ...(contentDigest !== undefined && { content_digest: contentDigest }),
    },
    previous: await previousOf(options.input, artifact.digest),
  };
}

export async function rewrapEnvelope(context: Context, options: RewrapOptions): Promise<Outcome> {
  const file = await rereadable(unbroken(options.input), context.directory);
  try {
    const { header, artifact, count } = await inspect(file, options);
    const { binding, key } = header;
    const oldProvider = wrappingKeyOf(context, key.reference);
    const newProvider = wrappingKeyOf(context, options.newKeyReference);
    if (oldProvider.provider !== key.provider)
      throw new EnforcementError("not_authentic", "the key is of another kind");
    const rewrapping = {
      profile: "envelope",
      binding,
      artifact,
      oldKeys: [oldProvider],
      newKeys: [newProvider],
    } as const;
    const making = await makingOf(options, rewrapping);
    const outcome = await produce(context, options, making, async (sink, { keys }) => {
      const newKey = {
        decision_id: keys[1]?.decisionId ?? "",
        provider: newProvider.provider,
        reference: newProvider.reference,
      };
      const contentKey = await oldProvider.unwrap(key.wrapped, keyAssociatedData(binding, key));
      let wrapped: string;
      try {
        requireContentKey(contentKey, binding);
        wrapped = await newProvider.wrap(contentKey, keyAssociatedData(binding, newKey));
      } finally {
        contentKey.fill(0);
      }
      const [before, after] = [new Digesting(), new Digesting()];
      const source = counted(chunksOf(file), (piece) => {
        before.update(piece);
        count(piece.length);
      });
      const write = async (piece: Uint8Array) => {
        after.update(piece);
        await sink.write(piece);
      };
      const reader = new ByteReader(source);
      await readHeader(reader);
      await write(encodeHeader({ binding, key: { ...newKey, wrapped } }));
      for await (const piece of reader.rest()) await write(piece);
      if (before.finish().digest !== artifact.digest)
        throw new EnforcementError("not_authentic", "the artifact changed while it was rewrapped");
      return after.finish();
    });
    return { ...outcome, isKeyCommitted: binding.key_commitment !== undefined };
  } finally {
    await file.close();
  }
}
