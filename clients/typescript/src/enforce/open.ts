/** Opening: an envelope becomes plaintext again, for a decision about this very artifact. */
import type { FileHandle } from "node:fs/promises";
import { ByteReader } from "./byte-reader.ts";
import { type Digest, Digesting, digestOf, type Input, type Output, openSink, rereadable, type Sink } from "./data.ts";
import { type EnvelopeHeader, keyAssociatedData, payloadAssociatedData, readHeader } from "./envelope.ts";
import { EnforcementError } from "./errors.ts";
import { chunksOf } from "./files.ts";
import {
  type Context,
  describe,
  keyOf,
  type Permitted,
  type RequestOptions,
  recordCompletion,
  requestPermission,
  withEvidence,
} from "./operation.ts";
import type { Artifact, Resource } from "./platform.ts";
import { counted, type Outcome, progress, receiptsOf } from "./protect.ts";
import { receiptsPathOf, writeReceipts } from "./receipts.ts";
import { decryptSegments } from "./streaming-aead.ts";

export interface OpenOptions extends RequestOptions {
  readonly input: Input;
  readonly output: Output;
  /** The resource that is expected; anything else is refused. Default: the one that the header names. */
  readonly resource?: Resource;
  /** Whether a file with the output's name is replaced. Default false. */
  readonly replace?: boolean;
}

export async function openEnvelope(context: Context, options: OpenOptions): Promise<Outcome> {
  const { signal } = options;
  const file = await rereadable(options.input, context.directory);
  try {
    const { header, artifact, count } = await inspect(file, options);
    const { binding, key } = header;
    const provider = keyOf(context, key.reference);
    if (provider.provider !== key.provider) throw new EnforcementError("not_authentic", "the key is of another kind");
    const labels = labelsOf(header, options);
    const about = { artifact_digest: artifact.digest, artifact_cid: artifact.cid };
    const permitted = await requestPermission(context, options, {
      operation: "access",
      profile: "envelope",
      resource: binding.resource,
      labels,
      keys: [{ operation: "unwrap", reference: provider.reference, transport: provider.transport }],
      about,
    });
    const description = describe(context, options, { resource: binding.resource, labels });
    const named: Artifact = {
      ...about,
      artifact_kind: "data_object",
      artifact_profile: "envelope",
      decision_id: permitted.plan.decisionId,
    };
    const event = { ...description, ...named, event_type: "access" } as const;
    return await withEvidence(context, event, permitted.toleranceMs, signal, async (evidence) => {
      const contentKey = await provider.unwrap(key.wrapped, keyAssociatedData(binding, key));
      try {
        // What a stream was given cannot be taken back, so that its event comes first.
        if (typeof options.output !== "string") await announce(context, event, permitted, signal);
        const sink = await openSink(options.output, options.replace ?? false);
        try {
          await decrypt(file, header, contentKey, artifact, sink, (sizeBytes) => {
            signal?.throwIfAborted();
            count(sizeBytes);
          });
          await sink.sync();
          const receiptsFile = typeof options.output === "string" ? receiptsPathOf(options.output) : undefined;
          const { toleranceMs } = permitted;
          const completed = { artifact: named, ...(receiptsFile !== undefined && { receiptsFile }), toleranceMs };
          const recorded = await recordCompletion(context, evidence, completed, signal);
          const receipts = receiptsOf("access", named, permitted, evidence, undefined, recorded.receipt);
          if (receiptsFile !== undefined) await writeReceipts(receiptsFile, receipts);
          await sink.commit();
          return {
            decisionId: permitted.plan.decisionId,
            artifactDigest: artifact.digest,
            artifactCid: artifact.cid,
            evidence: recorded.isPending ? "pending" : "recorded",
            receipts,
          };
        } catch (error) {
          await sink.abandon();
          throw error;
        }
      } finally {
        contentKey.fill(0);
      }
    });
  } finally {
    await file.close();
  }
}

/** Reads the header and names the artifact. */
export async function inspect(file: FileHandle, options: Pick<OpenOptions, "resource"> & RequestOptions) {
  const count = progress(options, (await file.stat()).size * 2);
  const reader = new ByteReader(chunksOf(file));
  const header = await readHeader(reader);
  const { resource } = header.binding;
  if (options.resource !== undefined && !isSame(options.resource, resource))
    throw new EnforcementError("invalid", "the artifact is of another resource");
  const artifact = await digestOf(file, (sizeBytes) => {
    options.signal?.throwIfAborted();
    count(sizeBytes);
  });
  return { header, artifact, count };
}

/** Labels that the header has and those of the request: none can be left out. */
export function labelsOf({ binding }: EnvelopeHeader, { labels = [] }: RequestOptions): readonly string[] {
  return [...new Set([...binding.labels, ...labels])].sort();
}

function isSame(expected: Resource, found: Resource): boolean {
  return (["kind", "id", "mime_type"] as const).every(
    (member) => expected[member] === undefined || expected[member] === found[member],
  );
}

/** Reads the file again: what is decrypted is what was asked about, or it fails. */
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

/** Puts on the ledger that plaintext is about to be released to a stream. */
async function announce(
  context: Context,
  event: Parameters<typeof context.spool.begin>[0],
  { toleranceMs }: Permitted,
  signal: AbortSignal | undefined,
): Promise<void> {
  const evidence = await context.spool.begin(event, toleranceMs);
  await evidence.settle({ outcome: "releasing" });
  const sent = await evidence.send(signal);
  if (sent === undefined && toleranceMs === 0)
    throw new EnforcementError("unavailable", "the evidence could not be recorded, and policy tolerates no delay");
}
