/**
 * Profile `tdf`: files of OpenTDF 4.3, which other readers open with the private key or through its key access service.
 * The policy's uuid and an assertion name the decision. docs/enforcement.md has what others need to know.
 */
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { crc32 } from "node:zlib";
import { type Digest, digestOfBytes, rereadable, unbroken } from "./data.ts";
import { EnforcementError } from "./errors.ts";
import type { Binding } from "./header.ts";
import { keySize } from "./keys.ts";
import { access, type OpenOptions, type Range, type RangeOptions, requireResource, withinRange } from "./open.ts";
import { type Context, keyOf } from "./operation.ts";
import type { Decision } from "./platform.ts";
import { type Outcome, type ProtectOptions, produce, progress, protectContent } from "./protect.ts";
import { fileSource, type RandomAccess, readAt } from "./random-access.ts";
import { makingOf, type RewrapOptions } from "./rewrap.ts";
import { segmentsOf } from "./streaming-aead.ts";
import type { TdfKey } from "./tdf-keys.ts";
import {
  encodeManifest,
  encryptedSize,
  type KeyAccess,
  keyAccessOf,
  type Manifest,
  parseManifest,
  policyOf,
  readPolicy,
  requireAttributes,
  requireManifest,
  requirePolicy,
  requireSegments,
  type Segment,
  type SegmentHash,
  type Statement,
  segmentHash,
  segmentOverhead,
  statementOf,
} from "./tdf-manifest.ts";
import {
  afterManifest,
  beforeManifest,
  beforePayload,
  type Container,
  needsZip64,
  readContainer,
  requireFraming,
  type Stored,
} from "./tdf-zip.ts";

const segmentBytes = 2_097_152;
const nonceSize = 12;
const tagSize = 16;
type Write = (piece: Uint8Array) => Promise<void>;
type WriteSegment = (encrypted: Buffer) => Promise<void>;
/** The keys of each share. */
type Shares = readonly (readonly TdfKey[])[];

/** The TDF key that a file or a caller names. */
function tdfKeyOf({ keys }: Context, reference: string | undefined): TdfKey {
  return keyOf(
    keys.filter((key) => "wrapShare" in key),
    reference,
  );
}

function sharesOf(context: Context, named: readonly (readonly string[])[] | undefined, reference?: string): Shares {
  if (named === undefined) return [[tdfKeyOf(context, reference)]];
  if (named.length === 0 || named.some((keys) => keys.length === 0))
    throw new EnforcementError("invalid", "a share of the payload key has no key");
  return named.map((references) => references.map((name) => tdfKeyOf(context, name)));
}

export async function protectAsTdf(context: Context, options: ProtectOptions): Promise<Outcome> {
  const { resource, tdf = {} } = options;
  const namespace = requireAttributes(options.labels ?? [], context.attributeNamespace);
  const shares = sharesOf(context, tdf.keys, options.keyReference);
  const keys = shares.flat();
  return protectContent(context, options, { profile: "tdf", keys }, async ({ source, sizeBytes, write }, named) => {
    const payloadKey = randomBytes(keySize);
    try {
      const { binding, decisions, plan } = named;
      const encryptedBytes =
        sizeBytes === undefined ? undefined : sizeBytes + segmentOverhead * (1 + Math.ceil(sizeBytes / segmentBytes));
      const isZip64 = needsZip64(encryptedBytes);
      const alg = tdf.segmentHash ?? "HS256";
      await write(beforePayload(isZip64));
      const { payload, segments } = await encrypt(source, payloadKey, alg, write);
      if (!isZip64 && needsZip64(payload.sizeBytes)) throw new EnforcementError("invalid", "the input grew");
      const policy = policyOf(binding, namespace, plannedBy([plan, ...decisions]));
      const keyAccess = await wrapped(payloadKey, shares, policy);
      const hashes = segments.map(({ hash }) => Buffer.from(hash, "base64"));
      const encryption = {
        type: "split",
        keyAccess,
        method: { algorithm: "AES-256-GCM", isStreamable: true, iv: "" },
        integrityInformation: {
          rootSignature: {
            alg: "HS256",
            sig: segmentHash("HS256", Buffer.concat(hashes), payloadKey).toString("base64"),
          },
          segmentHashAlg: alg,
          segmentSizeDefault: segmentBytes,
          encryptedSegmentSizeDefault: segmentBytes + segmentOverhead,
          segments,
        },
        policy,
      } as const;
      const statement = { binding, keys: namedKeys(keys, decisions) };
      const mimeType = resource.mime_type || "application/octet-stream";
      return await finish(write, encodeManifest(encryption, mimeType, statement, payloadKey), payload, isZip64);
    } finally {
      payloadKey.fill(0);
    }
  });
}

/** Attribute values that the policy of the file must name. */
function plannedBy(decisions: readonly Decision[]): readonly string[] {
  return decisions.flatMap(({ plan }) => plan.tdfKey?.attributeFqns ?? []);
}

function namedKeys(keys: readonly TdfKey[], decisions: readonly { readonly decisionId: string }[]) {
  return keys.map(({ reference }, i) => ({ decision_id: decisions[i]?.decisionId ?? "", reference }));
}

/** Writes the segments, each under the nonce of its number: the key is the file's alone. */
async function encrypt(source: AsyncIterable<Uint8Array>, payloadKey: Uint8Array, alg: SegmentHash, write: Write) {
  const segments: Segment[] = [];
  let payload: Stored = { crc: 0, sizeBytes: 0 };
  for await (const { bytes } of segmentsOf(source, segmentBytes, segmentBytes)) {
    const nonce = Buffer.alloc(nonceSize);
    nonce.writeUInt32BE(segments.length, nonceSize - 4);
    const cipher = createCipheriv("aes-256-gcm", payloadKey, nonce);
    const encrypted = Buffer.concat([nonce, cipher.update(bytes), cipher.final(), cipher.getAuthTag()]);
    const hash = segmentHash(alg, encrypted, payloadKey).toString("base64");
    segments.push({ hash, segmentSize: bytes.length, encryptedSegmentSize: encrypted.length });
    payload = { crc: crc32(encrypted, payload.crc), sizeBytes: payload.sizeBytes + encrypted.length };
    await write(encrypted);
  }
  return { payload, segments };
}

/** Splits the payload key, and wraps each share with each of its keys. */
async function wrapped(payloadKey: Uint8Array, shares: Shares, policy: string): Promise<readonly KeyAccess[]> {
  const found: KeyAccess[] = [];
  const last = Uint8Array.from(payloadKey);
  for (const [i, keys] of shares.entries()) {
    const share = i === shares.length - 1 ? last : randomBytes(keySize);
    if (share !== last) addShare(last, share);
    for (const key of keys) found.push(await keyAccessOf(key, share, `share-${i + 1}`, policy));
    share.fill(0);
  }
  return found;
}

function addShare(sum: Uint8Array, share: Uint8Array): void {
  for (let i = 0; i < keySize; i++) sum[i] = (sum[i] as number) ^ (share[i] as number);
}

/** Writes the rest of the container. Resolves with the digest of the manifest. */
async function finish(write: Write, manifest: Buffer, payload: Stored, isZip64: boolean) {
  await write(beforeManifest(payload, isZip64));
  await write(manifest);
  await write(afterManifest(payload, storedOf(manifest), isZip64));
  return digestOfBytes(manifest);
}

const storedOf = (bytes: Uint8Array): Stored => ({ crc: crc32(bytes), sizeBytes: bytes.length });

/** A file's parts, of which nothing is verified. */
interface Found {
  readonly container: Container;
  readonly manifest: Manifest;
  /** Absent if the file is of another writer. */
  readonly statement: Statement | undefined;
  readonly artifact: Digest;
}

/** Reads everything but the payload. Rejects with `not_authentic`. */
export async function readTdf(source: RandomAccess): Promise<Found> {
  const container = await readContainer(source);
  const manifest = parseManifest(container.manifest);
  const artifact = digestOfBytes(container.manifest);
  return { container, manifest, statement: statementOf(manifest), artifact };
}

export async function openTdf(context: Context, options: OpenOptions): Promise<Outcome> {
  const file = await rereadable(unbroken(options.input), context.directory);
  try {
    const source = await fileSource(file);
    const found = await readTdf(source);
    const count = progress(options, found.container.payloadBytes);
    return await release(context, options, found, async (payloadKey, write) => {
      await eachSegment(source, found, payloadKey, async (encrypted) => {
        count(encrypted.length);
        await write(decrypt(encrypted, payloadKey));
      });
    });
  } finally {
    await file.close();
  }
}

/** Opens the segments of a range. Their sizes, of which positions are sums, are proven by the assertion only. */
export async function openTdfRange(context: Context, options: RangeOptions, source: RandomAccess): Promise<Outcome> {
  const found = await readTdf(source);
  const { artifactDigest } = options;
  if (artifactDigest !== undefined && artifactDigest !== found.artifact.digest)
    throw new EnforcementError("not_authentic", "the artifact is another one");
  const count = progress(options, undefined);
  return release(context, options, found, async (payloadKey, write) => {
    for (const { segment, position, range } of segmentsWithin(found, options)) {
      const encrypted = await readSegment(source, found, payloadKey, segment, position);
      count(encrypted.length);
      await write(withinRange(decrypt(encrypted, payloadKey), range));
    }
  });
}

/** Asks for permission, and writes plaintext with the payload key. */
async function release(
  context: Context,
  options: Omit<OpenOptions, "input">,
  found: Found,
  open: (payloadKey: Uint8Array, write: Write) => Promise<void>,
): Promise<Outcome> {
  const { manifest, statement, artifact } = found;
  const binding = statement?.binding ?? foreignBinding(context, options, manifest);
  requireResource(binding, options.resource);
  const holdings = holdingsOf(context, found);
  const keys = holdings.map(({ key }) => key);
  const outcome = await access(context, options, { profile: "tdf", binding, artifact, keys }, async (releasing) => {
    const payloadKey = await unwrapped(found, holdings);
    try {
      return await releasing((sink) =>
        open(payloadKey, async (plaintext) => {
          await sink.write(plaintext);
          plaintext.fill(0);
        }),
      );
    } finally {
      payloadKey.fill(0);
    }
  });
  return { ...outcome, isForeign: statement === undefined };
}

/** The segments that a range touches: at least one, and the last if the range ends behind the data. */
function segmentsWithin({ container, manifest }: Found, { offset, length }: Range) {
  const { segments } = manifest.encryptionInformation.integrityInformation;
  const touched: { segment: Segment; position: number; range: Range }[] = [];
  let position = 0;
  let start = 0;
  for (const [i, segment] of segments.entries()) {
    const encryptedBytes = encryptedSize(segment, manifest);
    const end = start + encryptedBytes - segmentOverhead;
    if ((offset < end || i === segments.length - 1) && offset + Math.max(length, 1) > start)
      touched.push({ segment, position, range: { offset: offset - start, length } });
    position += encryptedBytes;
    start = end;
  }
  if (position !== container.payloadBytes || touched.length === 0) throw changed();
  return touched;
}

/**
 * What a file of another writer is asked about: the caller's resource, and all attributes of its policy as labels. Names
 * of attributes are compared in lower case.
 */
function foreignBinding(
  context: Context,
  { allowForeign, resource }: Pick<OpenOptions, "allowForeign" | "resource">,
  manifest: Manifest,
): Binding {
  if (allowForeign !== true) throw unnamed();
  if (resource === undefined) throw new EnforcementError("invalid", "a foreign file does not say what resource it is");
  const { uuid, attributes, recipients } = readPolicy(manifest.encryptionInformation.policy);
  if (recipients.length > 0)
    throw new EnforcementError("not_permitted", "the file is for recipients, which no decision considers");
  const names = attributes.map((attribute) => attribute.toLowerCase());
  // The policy is bound to the key, and anyone can leave out the assertion, which has the resource.
  if (names.some((name) => name.endsWith(`/attr/decision/value/${uuid.toLowerCase()}`)))
    throw new EnforcementError("not_authentic", "the file was protected here, and lacks its assertion");
  const { attributeNamespace } = context;
  const prefix = attributeNamespace && `https://${attributeNamespace}/attr/label/value/`;
  const labels = names.map((name) => (prefix && name.startsWith(prefix) ? name.slice(prefix.length) : name));
  return { decision_id: "", policy_revision: "", labels, resource };
}

interface Holding {
  readonly key: TdfKey;
  readonly access: KeyAccess;
}

/** For each share a key of this process. Throws `invalid` if one has none. */
function holdingsOf({ keys }: Context, { manifest, statement }: Found): readonly Holding[] {
  const holders = keys.filter((key) => "wrapShare" in key).filter(({ unwrapShare }) => unwrapShare !== undefined);
  const shares = new Map<string, Holding | undefined>();
  for (const [i, access] of manifest.encryptionInformation.keyAccess.entries()) {
    const sid = access.sid ?? "";
    const named = statement?.keys[i]?.reference;
    const key = holders.find(
      ({ type, kid, reference }) =>
        type === access.type && kid === (access.kid ?? kid) && reference === (named ?? reference),
    );
    shares.set(sid, shares.get(sid) ?? (key && { key, access }));
  }
  const holdings = [...shares.values()];
  if (holdings.length === 0 || holdings.includes(undefined))
    throw new EnforcementError("invalid", "there is no TDF key here for every share of the payload key");
  return holdings as Holding[];
}

/** The payload key, after everything that is bound to it was verified. */
async function unwrapped({ container, manifest, statement }: Found, holdings: readonly Holding[]): Promise<Uint8Array> {
  const payloadKey = new Uint8Array(keySize);
  try {
    for (const { key, access } of holdings) {
      const share = (await key.unwrapShare?.(access)) ?? new Uint8Array(0);
      requirePolicy(share, access, manifest.encryptionInformation.policy);
      addShare(payloadKey, share);
      share.fill(0);
    }
    requireSegments(manifest, payloadKey);
    if (statement !== undefined) requireManifest(container.manifest, manifest, statement, payloadKey);
    return payloadKey;
  } catch (error) {
    payloadKey.fill(0);
    throw error;
  }
}

/** Passes on the segments whose hash is that of the manifest. Rejects with `not_authentic`, at the end for framing. */
async function eachSegment(
  source: RandomAccess,
  found: Found,
  payloadKey: Uint8Array,
  look: WriteSegment,
): Promise<Stored> {
  const { container, manifest, statement } = found;
  const { segments } = manifest.encryptionInformation.integrityInformation;
  let payload: Stored = { crc: 0, sizeBytes: 0 };
  for (const segment of segments) {
    const encrypted = await readSegment(source, found, payloadKey, segment, payload.sizeBytes);
    payload = { crc: crc32(encrypted, payload.crc), sizeBytes: payload.sizeBytes + encrypted.length };
    await look(encrypted);
  }
  if (payload.sizeBytes !== container.payloadBytes) throw changed();
  if (statement !== undefined) await requireFraming(source, container, payload, storedOf(container.manifest));
  return payload;
}

/** Reads a segment at this position of the payload. Rejects with `not_authentic` unless its hash is the manifest's. */
async function readSegment(
  source: RandomAccess,
  { container, manifest }: Found,
  payloadKey: Uint8Array,
  segment: Segment,
  position: number,
): Promise<Buffer> {
  const { segmentHashAlg } = manifest.encryptionInformation.integrityInformation;
  const sizeBytes = encryptedSize(segment, manifest);
  if (position + sizeBytes > container.payloadBytes) throw changed();
  const encrypted = await readAt(source, container.payloadAt + position, sizeBytes);
  if (segmentHash(segmentHashAlg, encrypted, payloadKey).toString("base64") !== segment.hash) throw changed();
  return encrypted;
}

function decrypt(encrypted: Buffer, payloadKey: Uint8Array): Buffer {
  const decipher = createDecipheriv("aes-256-gcm", payloadKey, encrypted.subarray(0, nonceSize));
  decipher.setAuthTag(encrypted.subarray(-tagSize));
  const plaintext = decipher.update(encrypted.subarray(nonceSize, -tagSize));
  try {
    decipher.final();
    return plaintext;
  } catch (cause) {
    plaintext.fill(0);
    throw changed(cause);
  }
}

const unnamed = () =>
  new EnforcementError("not_authentic", "the file names no decision: it was not protected here, or was changed");

const changed = (cause?: unknown) =>
  new EnforcementError("not_authentic", "the artifact is not as it was protected", { cause });

/** Wraps the payload key with another key, or in other shares. Policy and payload stay. */
export async function rewrapTdf(context: Context, options: RewrapOptions): Promise<Outcome> {
  const file = await rereadable(unbroken(options.input), context.directory);
  try {
    const source = await fileSource(file);
    const found = await readTdf(source);
    const { container, manifest, statement, artifact } = found;
    if (statement === undefined) throw unnamed();
    const { binding } = statement;
    requireResource(binding, options.resource);
    const holdings = holdingsOf(context, found);
    const shares = sharesOf(context, options.tdf?.keys, options.newKeyReference);
    const newKeys = shares.flat();
    const oldKeys = holdings.map(({ key }) => key);
    const making = await makingOf(options, { profile: "tdf", binding, artifact, oldKeys, newKeys });
    const count = progress(options, container.payloadBytes);
    return await produce(context, options, making, async (sink, permitted) => {
      const { encryptionInformation } = manifest;
      const decisions = permitted.keys.slice(holdings.length);
      const { attributes } = readPolicy(encryptionInformation.policy);
      const lacking = plannedBy([permitted.plan, ...decisions]).find((fqn) => !attributes.includes(fqn));
      if (lacking !== undefined)
        throw new EnforcementError("not_permitted", `the plan demands ${lacking}, which the file's policy lacks`, {
          decisionId: permitted.plan.decisionId,
        });
      const payloadKey = await unwrapped(found, holdings);
      try {
        const isZip64 = needsZip64(container.payloadBytes);
        await sink.write(beforePayload(isZip64));
        const payload = await eachSegment(source, found, payloadKey, async (encrypted) => {
          count(encrypted.length);
          await sink.write(encrypted);
        });
        const keyAccess = await wrapped(payloadKey, shares, encryptionInformation.policy);
        const keys = namedKeys(newKeys, decisions);
        const { mimeType } = manifest.payload as { readonly mimeType: string };
        const changed = { ...encryptionInformation, keyAccess };
        const bytes = encodeManifest(changed, mimeType, { binding, keys }, payloadKey);
        return await finish((piece) => sink.write(piece), bytes, payload, isZip64);
      } finally {
        payloadKey.fill(0);
      }
    });
  } finally {
    await file.close();
  }
}
