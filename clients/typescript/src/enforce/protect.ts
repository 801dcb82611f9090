/** Protecting: registers the result, under a decision that it is bound to. Plaintext becomes an envelope. */
import { randomBytes, randomUUID } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import { resolve } from "node:path";
import {
  type Count,
  type Digest,
  Digesting,
  digestOf,
  type Input,
  type Output,
  openFile,
  openSink,
  type Sink,
  streamed,
} from "./data.ts";
import {
  type EnvelopeBinding,
  encodeHeader,
  keyAssociatedData,
  keyCommitment,
  payloadAssociatedData,
} from "./envelope.ts";
import { EnforcementError } from "./errors.ts";
import { chunksOf } from "./files.ts";
import type { Binding } from "./header.ts";
import { type KeyProvider, keySize } from "./keys.ts";
import {
  type Asked,
  type Context,
  describe,
  type Permitted,
  type RequestOptions,
  recordCompletion,
  register,
  requestPermission,
  type UsedKey,
  usesOf,
  withEvidence,
  wrappingKeyOf,
} from "./operation.ts";
import type { Accepted, Artifact, Decision, Operation, Profile, Resource } from "./platform.ts";
import { type ReceiptsFile, receiptsFormat, receiptsPathOf, writeReceipts } from "./receipts.ts";
import type { PendingEvidence } from "./spool.ts";
import { encryptSegments, type StreamingAead } from "./streaming-aead.ts";
import type { TdfOptions } from "./tdf-manifest.ts";

/** Supported profiles. */
export const localProfiles = ["envelope", "detached_signature", "tdf"] as const;
export type LocalProfile = (typeof localProfiles)[number];

export interface ProtectOptions extends RequestOptions, Located {
  readonly input: Input;
  /** The envelope, or the signature. */
  readonly output: Output;
  readonly resource: Resource;
  /** Default `envelope`. A detached signature leaves the data unchanged. */
  readonly profile?: LocalProfile;
  /** Reference of the wrapping or signing key. Default: the first suitable one. */
  readonly keyReference?: string;
  /** For an envelope. Default `AES256_GCM_HKDF_1MB`; the other one is for data that is opened in small parts. */
  readonly aead?: StreamingAead;
  /** For a detached signature: whether to write it as a Sigstore bundle. Default false. */
  readonly bundle?: boolean;
  readonly tdf?: TdfOptions;
  /**
   * Includes the plaintext's SHA-256 in the question; the file is then read twice. Default false; signatures always do.
   */
  readonly withContentDigest?: boolean;
  /** Whether to replace an existing output file. Default false. */
  readonly replace?: boolean;
}

/** Of what is registered. */
export interface Located {
  /**
   * Where the artifact will be, at most 2,048 characters: sent with the registration. The service removes user
   * information, query and fragment. Nothing depends on it.
   */
  readonly artifactLocator?: string;
}

/** Result of an operation. */
export interface Outcome {
  readonly decisionId: string;
  readonly artifactDigest: string;
  readonly artifactCid: string;
  /** `pending`: the event is stored, and sent by a later operation or flush. */
  readonly evidence: "recorded" | "pending";
  /** As written beside the output, if that is a file. */
  readonly receipts: ReceiptsFile;
  /** For an envelope: whether its header commits to the content key. The old form does not, even after a rewrap. */
  readonly isKeyCommitted?: boolean;
  /** For an opened TDF: whether it lacks our assertion, so that no decision is proven. */
  readonly isForeign?: boolean;
}

export async function protectAsEnvelope(context: Context, options: ProtectOptions): Promise<Outcome> {
  const { aead = "AES256_GCM_HKDF_1MB" } = options;
  const provider = wrappingKeyOf(context, options.keyReference);
  const named = { profile: "envelope", keys: [provider] } as const;
  const outcome = await protectContent(context, options, named, async ({ source, write }, { binding, decisions }) => {
    const artifact = new Digesting();
    for await (const piece of envelopeOf(source, { ...binding, aead }, provider, decisions)) {
      artifact.update(piece);
      await write(piece);
    }
    return artifact.finish();
  });
  return { ...outcome, isKeyCommitted: true };
}

/** Plaintext, and where its protected form goes. */
interface Content {
  readonly source: AsyncIterable<Uint8Array>;
  /** Absent for a stream. */
  readonly sizeBytes: number | undefined;
  readonly write: (piece: Uint8Array) => Promise<void>;
}

/** Encrypts plaintext under a decision. `make` writes the artifact, and resolves with the digest that names it. */
export async function protectContent(
  context: Context,
  options: ProtectOptions,
  { profile, keys }: Pick<Making, "profile"> & { readonly keys: readonly UsedKey[] },
  make: (
    content: Content,
    named: { readonly binding: Binding; readonly plan: Decision; readonly decisions: Permitted["keys"] },
  ) => Promise<Digest>,
): Promise<Outcome> {
  const { input, resource } = options;
  const labels = [...new Set(options.labels)].sort();
  const file = typeof input === "string" ? await openFile(input) : undefined;
  try {
    const sizeBytes = file === undefined ? undefined : (await file.stat()).size;
    const count = progress(
      options,
      sizeBytes === undefined ? undefined : sizeBytes * (options.withContentDigest ? 2 : 1),
    );
    const content = await contentDigest(options, file, count);
    const making: Making = {
      operation: "protect",
      profile,
      resource,
      labels,
      keys: usesOf("wrap", keys),
      about: {
        ...(content !== undefined && { content_digest: content }),
        ...(sizeBytes !== undefined && { content_size_bytes: sizeBytes }),
      },
    };
    return await produce(context, options, making, async (sink, permitted) => {
      const { decisionId: decision_id, policyRevision: policy_revision } = permitted.plan;
      const binding = { decision_id, labels, policy_revision, resource };
      const plaintext = new Digesting();
      const pieces = file === undefined ? streamed(input as AsyncIterable<Uint8Array>) : chunksOf(file);
      const source = counted(pieces, (piece) => {
        plaintext.update(piece);
        count(piece.length);
      });
      const write = (piece: Uint8Array) => sink.write(piece);
      const digest = await make(
        { source, sizeBytes, write },
        { binding, plan: permitted.plan, decisions: permitted.keys },
      );
      if (content !== undefined && plaintext.finish().digest !== content)
        throw new EnforcementError("invalid", "the input changed while it was read");
      return digest;
    });
  } finally {
    await file?.close();
  }
}

async function contentDigest(
  { withContentDigest = false }: ProtectOptions,
  file: FileHandle | undefined,
  count: Count,
): Promise<string | undefined> {
  if (!withContentDigest) return undefined;
  if (file === undefined) throw new EnforcementError("invalid", "a stream's digest is not known before it is read");
  return (await digestOf(file, count)).digest;
}

async function* envelopeOf(
  source: AsyncIterable<Uint8Array>,
  named: EnvelopeBinding,
  provider: KeyProvider,
  decisions: Permitted["keys"],
): AsyncGenerator<Uint8Array> {
  const contentKey = randomBytes(keySize);
  try {
    const binding: EnvelopeBinding = { ...named, key_commitment: keyCommitment(contentKey) };
    const key = {
      decision_id: decisions[0]?.decisionId ?? "",
      provider: provider.provider,
      reference: provider.reference,
    };
    const wrapped = await provider.wrap(contentKey, keyAssociatedData(binding, key));
    yield encodeHeader({ binding, key: { ...key, wrapped } });
    const associatedData = payloadAssociatedData(binding);
    yield* encryptSegments(source, { aead: binding.aead, key: contentKey, associatedData });
  } finally {
    contentKey.fill(0);
  }
}

/** The question about a new artifact; the first of the keys that wrap is the one that the artifact names. */
export interface Making extends Asked {
  readonly operation: Operation & ("protect" | "rewrap");
  /** For a rewrap: the receipts of the original, if present. */
  readonly previous?: ReceiptsFile | undefined;
}

/**
 * Requests permission, writes an artifact, registers it, records its event, writes its receipts, and then gives it its
 * name.
 */
export async function produce(
  context: Context,
  options: RequestOptions & Located & { readonly output: Output; readonly replace?: boolean },
  making: Making,
  write: (sink: Sink, permitted: Permitted) => Promise<Digest>,
): Promise<Outcome> {
  const { output, signal, replace = false, artifactLocator } = options;
  const { operation, profile, keys, previous } = making;
  const permitted = await requestPermission(context, options, making);
  const { toleranceMs } = permitted;
  const decisionId = permitted.plan.decisionId;
  const newKey = keys.findIndex((key) => key.operation === "wrap");
  const description = describe(context, options, making);
  const event = { ...description, event_type: operation, decision_id: decisionId };
  return withEvidence(context, event, toleranceMs, signal, async (evidence) => {
    const sink = await openSink(output, replace);
    try {
      const { digest, cid } = await write(sink, permitted);
      await sink.sync();
      const artifact: Artifact = {
        artifact_kind: artifactKindOf(profile),
        artifact_profile: profile,
        artifact_digest: digest,
        artifact_cid: cid,
        decision_id: decisionId,
      };
      const registration = {
        ...{ ...description, ...artifact, operation, key_reference: keys[newKey]?.reference ?? "" },
        ...(artifactLocator !== undefined && { artifact_locator: artifactLocator }),
      };
      const { receipt } = await register(context, registration, randomUUID(), signal);
      return await complete(
        context,
        { output, operation, previous, artifact, permitted, newKey, evidence, sink, signal },
        receipt,
      );
    } catch (error) {
      await sink.abandon();
      throw error;
    }
  });
}

/** What the digest of an artifact is of: of a TDF, its manifest. */
export function artifactKindOf(profile: Profile): Artifact["artifact_kind"] {
  return profile === "tdf" ? "tdf_manifest" : "data_object";
}

export interface Completion {
  readonly output: Output;
  readonly operation: Operation;
  readonly previous?: ReceiptsFile | undefined;
  readonly artifact: Artifact;
  readonly permitted: Permitted;
  /** Index of the key decision that allowed the new key of a rewrap. */
  readonly newKey?: number;
  readonly evidence: PendingEvidence;
  readonly sink: Sink;
  readonly signal: AbortSignal | undefined;
}

/** Records the event of what was written, writes its receipts, and then gives the output its name. */
export async function complete(
  context: Context,
  { output, operation, previous, artifact, permitted, newKey = 0, evidence, sink, signal }: Completion,
  registration: Accepted["receipt"],
): Promise<Outcome> {
  // Its receipt may be added from another directory.
  const receiptsFile = typeof output === "string" ? resolve(receiptsPathOf(output)) : undefined;
  const { toleranceMs } = permitted;
  const completed = { artifact, ...(receiptsFile !== undefined && { receiptsFile }), toleranceMs };
  const recorded = await recordCompletion(context, evidence, completed, signal);
  const receipts = {
    ...receiptsOf(operation, artifact, permitted, newKey, evidence, registration, recorded.receipt),
    ...(previous && { previous }),
  };
  await sink.commit(receiptsFile === undefined ? undefined : () => writeReceipts(receiptsFile, receipts));
  return {
    decisionId: artifact.decision_id,
    artifactDigest: artifact.artifact_digest,
    artifactCid: artifact.artifact_cid,
    evidence: recorded.isPending ? "pending" : "recorded",
    receipts,
  };
}

/** The receipts beside the output. */
function receiptsOf(
  operation: Operation,
  { artifact_profile, artifact_digest, artifact_cid, decision_id }: Artifact,
  { plan, keys }: Permitted,
  newKey: number,
  { id }: PendingEvidence,
  registration: Accepted["receipt"],
  evidence: Accepted["receipt"],
): ReceiptsFile {
  const named = {
    plan: plan.receipt,
    key_access: keys[0]?.receipt,
    new_key_access: newKey === 0 ? undefined : keys[newKey]?.receipt,
    registration,
    evidence,
  };
  return {
    format: receiptsFormat,
    operation,
    artifact_profile,
    artifact_digest,
    artifact_cid,
    decision_id,
    evidence_id: id,
    receipts: Object.fromEntries(Object.entries(named).filter(([, receipt]) => receipt !== undefined)),
  };
}

/** Reports the sum of the counts, and throws the reason of the signal once it is aborted. */
export function progress({ onProgress, signal }: RequestOptions, totalBytes: number | undefined): Count {
  let doneBytes = 0;
  return (sizeBytes) => {
    signal?.throwIfAborted();
    doneBytes += sizeBytes;
    onProgress?.(doneBytes, totalBytes);
  };
}

/** Passes pieces on after `look` has seen each. */
export async function* counted(
  source: AsyncIterable<Uint8Array>,
  look: (piece: Uint8Array) => void,
): AsyncGenerator<Uint8Array> {
  for await (const piece of source) {
    look(piece);
    yield piece;
  }
}
