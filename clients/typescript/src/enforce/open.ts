/** Opening: writes data as it was protected, under a decision about this artifact. An envelope yields plaintext. */
import type { FileHandle } from "node:fs/promises";
import { ByteReader } from "./byte-reader.ts";
import {
  type Digest,
  Digesting,
  digestNamed,
  digestOf,
  type Input,
  type Output,
  openSink,
  rereadable,
  type Sink,
  unbroken,
} from "./data.ts";
import {
  type EnvelopeHeader,
  encodeHeader,
  keyAssociatedData,
  payloadAssociatedData,
  readHeader,
  requireContentKey,
} from "./envelope.ts";
import { EnforcementError } from "./errors.ts";
import { chunksOf } from "./files.ts";
import type { Binding } from "./header.ts";
import type { KeyProvider } from "./keys.ts";
import {
  type Context,
  describe,
  evidenceNotRecorded,
  type Permitted,
  type RequestOptions,
  requestPermission,
  usesOf,
  withEvidence,
  wrappingKeyOf,
} from "./operation.ts";
import type { Artifact, Profile, Resource } from "./platform.ts";
import { artifactKindOf, complete, counted, type LocalProfile, type Outcome, progress } from "./protect.ts";
import { piecesOf, type RandomAccess } from "./random-access.ts";
import { decryptRange, decryptSegments, type Range } from "./streaming-aead.ts";

export { type Range, withinRange } from "./streaming-aead.ts";

export interface OpenOptions extends RequestOptions {
  readonly input: Input;
  readonly output: Output;
  /** Path of the data's detached signature. Default: the input is what `profile` says. */
  readonly signature?: string;
  /** Default `envelope`. The content of the file must not decide this. */
  readonly profile?: LocalProfile;
  /** For a TDF: whether to open one that no assertion binds to a decision; it needs `resource`. Default false. */
  readonly allowForeign?: boolean;
  /** The expected resource; any other is refused. Default: the one in the header. */
  readonly resource?: Resource;
  /** Whether to replace an existing output file. Default false. */
  readonly replace?: boolean;
}

export interface RangeOptions extends Omit<OpenOptions, "input" | "signature" | "allowForeign">, Range {
  /** Path of the artifact, or where its bytes are read from. */
  readonly input: string | RandomAccess;
  /**
   * Digest of the artifact, as its protection or its registration says; needed for an envelope, and compared for a TDF.
   * The decision is about this artifact.
   */
  readonly artifactDigest?: string;
}

export async function openEnvelope(context: Context, options: OpenOptions): Promise<Outcome> {
  const file = await rereadable(unbroken(options.input), context.directory);
  try {
    const { header, artifact, count } = await inspect(file, options);
    return await release(context, options, header, artifact, (contentKey, sink) =>
      decrypt(file, header, contentKey, artifact, sink, count),
    );
  } finally {
    await file.close();
  }
}

/** Opens the segments of a range, under a decision about the artifact that the caller names. */
export async function openEnvelopeRange(
  context: Context,
  options: RangeOptions,
  source: RandomAccess,
): Promise<Outcome> {
  const { artifactDigest } = options;
  if (artifactDigest === undefined)
    throw new EnforcementError(
      "invalid",
      "a range of an envelope does not show which artifact it is of: name its digest",
    );
  const artifact = digestNamed(artifactDigest);
  const reader = new ByteReader(piecesOf(source, 4_096));
  const header = await readHeader(reader);
  requireResource(header.binding, options.resource);
  const count = progress(options, undefined);
  return release(context, options, header, artifact, async (key, sink) => {
    const { binding } = header;
    const streaming = { aead: binding.aead, key, associatedData: payloadAssociatedData(binding) };
    for await (const piece of decryptRange(source, encodeHeader(header).length, streaming, options)) {
      count(piece.length);
      await sink.write(piece);
      piece.fill(0);
    }
  });
}

/** Asks for permission, and writes plaintext with the content key. */
async function release(
  context: Context,
  options: RequestOptions & Pick<OpenOptions, "output" | "replace">,
  { binding, key }: EnvelopeHeader,
  artifact: Digest,
  write: (contentKey: Uint8Array, sink: Sink) => Promise<void>,
): Promise<Outcome> {
  const provider = wrappingKeyOf(context, key.reference);
  if (provider.provider !== key.provider) throw new EnforcementError("not_authentic", "the key is of another kind");
  const opening = { profile: "envelope", binding, artifact, keys: [provider] } as const;
  const outcome = await access(context, options, opening, async (releasing) => {
    const contentKey = await provider.unwrap(key.wrapped, keyAssociatedData(binding, key));
    try {
      requireContentKey(contentKey, binding);
      return await releasing((sink) => write(contentKey, sink));
    } finally {
      contentKey.fill(0);
    }
  });
  return { ...outcome, isKeyCommitted: binding.key_commitment !== undefined };
}

/** What the request to open an artifact names. */
export interface Opening {
  readonly profile: Profile;
  readonly binding: Binding;
  readonly artifact: Digest;
  readonly contentDigest?: string;
  readonly keys: readonly Pick<KeyProvider, "reference" | "transport">[];
}

/** Writes the data, and resolves only if it is what was protected. */
export type Release = (write: (sink: Sink) => Promise<void>) => Promise<Outcome>;

/**
 * Requests permission to open an artifact. Then `open` prepares and calls `release`, which records the event, writes
 * the receipts beside the output, and then gives it its name.
 */
export async function access(
  context: Context,
  options: RequestOptions & Pick<OpenOptions, "output" | "replace">,
  { profile, binding, artifact, contentDigest, keys }: Opening,
  open: (release: Release) => Promise<Outcome>,
): Promise<Outcome> {
  const { output, replace = false, signal } = options;
  const { resource } = binding;
  const labels = labelsOf(binding, options);
  const about = { artifact_digest: artifact.digest, artifact_cid: artifact.cid };
  const permitted = await requestPermission(context, options, {
    operation: "access",
    profile,
    resource,
    labels,
    keys: usesOf("unwrap", keys),
    about: { ...about, ...(contentDigest !== undefined && { content_digest: contentDigest }) },
  });
  const named: Artifact = {
    ...about,
    artifact_kind: artifactKindOf(profile),
    artifact_profile: profile,
    decision_id: permitted.plan.decisionId,
  };
  const event = { ...describe(context, options, { resource, labels }), ...named, event_type: "access" } as const;
  return withEvidence(context, event, permitted.toleranceMs, signal, (evidence) =>
    open(async (write) => {
      // Data cannot be taken back from a stream, so its event comes first.
      if (typeof output !== "string") await announce(context, event, permitted, signal);
      const sink = await openSink(output, replace);
      try {
        await write(sink);
        await sink.sync();
        const completion = { output, operation: "access", artifact: named, permitted, evidence, sink, signal } as const;
        return await complete(context, completion, undefined);
      } catch (error) {
        await sink.abandon();
        throw error;
      }
    }),
  );
}

/** Reads the header and computes the artifact's digest. */
export async function inspect(file: FileHandle, options: Pick<OpenOptions, "resource"> & RequestOptions) {
  const count = progress(options, (await file.stat()).size * 2);
  const reader = new ByteReader(chunksOf(file));
  const header = await readHeader(reader);
  requireResource(header.binding, options.resource);
  const artifact = await digestOf(file, count);
  return { header, artifact, count };
}

/** Labels of the header and of the request; none may be omitted. */
export function labelsOf(binding: Binding, { labels = [] }: RequestOptions): readonly string[] {
  return [...new Set([...binding.labels, ...labels])].sort();
}

/** Throws `invalid` unless the artifact's resource is the expected one, if any. */
export function requireResource({ resource }: Binding, expected: Resource | undefined): void {
  for (const member of ["kind", "id", "mime_type"] as const)
    if (expected?.[member] !== undefined && expected[member] !== resource[member])
      throw new EnforcementError("invalid", "the artifact is of another resource");
}

/** Reads the file again: fails unless it is the artifact that was permitted. */
async function decrypt(
  file: FileHandle,
  { binding }: EnvelopeHeader,
  contentKey: Uint8Array,
  artifact: Digest,
  sink: Sink,
  count: (sizeBytes: number) => void,
): Promise<void> {
  const again = new Digesting();
  const source = counted(chunksOf(file), (piece) => {
    again.update(piece);
    count(piece.length);
  });
  const reader = new ByteReader(source);
  await readHeader(reader);
  const associatedData = payloadAssociatedData(binding);
  const pieces = decryptSegments(reader.rest(), { aead: binding.aead, key: contentKey, associatedData });
  for await (const piece of pieces) {
    await sink.write(piece);
    piece.fill(0);
  }
  if (again.finish().digest !== artifact.digest)
    throw new EnforcementError("not_authentic", "the artifact changed while it was opened");
}

/** Records that plaintext is about to be released to a stream. */
async function announce(
  context: Context,
  event: Parameters<typeof context.spool.begin>[0],
  { toleranceMs }: Permitted,
  signal: AbortSignal | undefined,
): Promise<void> {
  const evidence = await context.spool.begin(event, toleranceMs);
  await evidence.settle({ outcome: "releasing" });
  const sent = await evidence.send(signal);
  if ("problem" in sent && toleranceMs === 0) throw evidenceNotRecorded(sent.problem);
}
