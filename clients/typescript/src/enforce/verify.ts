/** Verifies offline what the receipts beside an artifact prove, with the log keys that the verifier trusts. */
import { create, type JsonObject, type JsonValue } from "@bufbuild/protobuf";
import { recordRelations } from "../../../../gen/record-relations.ts";
import { at, same } from "../receipts/relations.ts";
import { verifyReceipt } from "../receipts.ts";
import { ByteReader } from "./byte-reader.ts";
import { type Receipt, ReceiptSchema } from "./client.ts";
import { digestOf, openFile } from "./data.ts";
import { type DetachedSignature, readSignature, requireContent, requireSignature } from "./detached-signature.ts";
import { readHeader } from "./envelope.ts";
import { EnforcementError } from "./errors.ts";
import { chunksOf } from "./files.ts";
import type { Operation, Resource } from "./platform.ts";
import { piecesOf, type RandomAccess, withSource } from "./random-access.ts";
import { type ReceiptsFile, receiptNames, receiptsFor, requireLogKeys } from "./receipts.ts";
import type { SigningKey } from "./signing-keys.ts";
import { readTdf } from "./tdf.ts";
import { requireManifest } from "./tdf-manifest.ts";

export interface VerifyOptions {
  /** The artifact, or the opened file: its path or its bytes. */
  readonly artifact: string | RandomAccess;
  /**
   * Kind of the file. Default `artifact`: a protected or rewrapped one, which is read. `opened`: the result of opening
   * one. Receipts must not decide this.
   */
  readonly kind?: "artifact" | "opened";
  /** Path of the receipts file, or what an operation returned. Default: the file beside the artifact's path. */
  readonly receipts?: string | ReceiptsFile;
  /** For a detached signature: path of the signed data. Default: not checked. */
  readonly data?: string;
  /** For a detached signature: keys, one of which must be the header's. Default: not checked. */
  readonly keys?: readonly SigningKey[];
  /** C2SP verifier keys of the tenant's log, from the operator; one of them must verify. */
  readonly logKeys: readonly string[];
}

/** What records of the log prove. */
export interface VerifiedArtifact {
  readonly operation: Operation;
  readonly profile: string;
  /** Digest of the artifact; for an opened file, of the artifact that was opened. */
  readonly artifactDigest: string;
  readonly artifactCid: string;
  readonly decisionId: string;
  readonly tenantId: string;
  readonly principalId: string;
  readonly resource: Resource;
  /** Labels of the decision. */
  readonly labels: readonly string[];
  /** Key of the artifact, or the one that opened it. */
  readonly keyReference: string;
  /** Proven records, in the order of the log. */
  readonly records: readonly { readonly name: string; readonly kind: string; readonly recordedAt: string }[];
  /** Whether the event is missing, because it was pending. */
  readonly isEvidencePending: boolean;
  /** For an opened file: whether its bytes are those of the decision. No record names the plaintext of an envelope. */
  readonly isContentProven?: boolean;
  /**
   * Whether the header of an envelope commits to its content key; only the old form does not. Absent for other files.
   */
  readonly isKeyCommitted?: boolean;
  /**
   * The first protection, to which all rewraps lead. Absent for an opened file, and if a rewrap lacked the receipts of
   * its original: then nothing proves the header's decision and labels.
   */
  readonly origin?: { readonly decisionId: string; readonly artifactDigest: string; readonly recordedAt: string };
}

/** A record, and its position in the log. */
interface Proven {
  readonly record: JsonObject;
  readonly leafIndex: number;
}

/** Compared parts, by their names in the table: records, and members of the artifact and of the receipts file. */
type Parts = ReadonlyMap<string, JsonObject>;

/**
 * Checks that the log holds the decisions, the registration and the event of this artifact, and that its header is
 * bound to them. Rejects with `not_authentic` if not. Decrypts nothing; checks a signature and its data if keys and
 * data are given.
 */
export async function verifyArtifact(options: VerifyOptions): Promise<VerifiedArtifact> {
  const { kind = "artifact", artifact } = options;
  await requireLogKeys(options.logKeys);
  const found = await receiptsFor(artifact, options.receipts);
  const isOpened = found.operation === "access";
  if (isOpened !== (kind === "opened"))
    fail(isOpened ? "the receipts are of a file that was opened" : "the receipts are of no file that was opened");
  if ((options.data ?? options.keys) !== undefined) requireSignatureFile(found);
  const proven = await provenRecords(found, options.logKeys);
  if (isOpened) {
    const content = await openedContent(artifact, proven);
    checkRelations(found, proven, content === undefined ? new Map() : new Map([["content", content]]));
    return { ...verified(found, proven), isContentProven: content !== undefined };
  }
  return withSource(artifact, async (source) => {
    const tdf = found.artifact_profile === "tdf" ? await readTdf(source) : undefined;
    const { digest, cid } = tdf?.artifact ?? (await digestOf(piecesOf(source)));
    const signed = found.artifact_profile === "detached_signature" ? await readSignature(source) : undefined;
    if (signed !== undefined && signed.artifact.digest !== digest) fail("the artifact changed while it was read");
    const { binding, key } =
      tdfHeader(tdf) ?? signed?.header ?? (await readHeader(new ByteReader(piecesOf(source, 4_096))));
    const parts = { binding: { ...binding, resource: namedOf(binding.resource) } };
    const { previous, origin } = await chainOf(found, proven, parts, options.logKeys);
    const own = { ...parts, key, artifact: { digest, cid }, ...(previous && { previous: previous.record }) };
    checkRelations(
      found,
      proven,
      new Map(Object.entries(own as unknown as JsonObject) as [string, JsonObject][]),
      previous,
    );
    if (signed !== undefined) await checkSignature(signed, options);
    const form = signed === undefined && tdf === undefined && { isKeyCommitted: "key_commitment" in binding };
    return { ...verified(found, proven), ...form, ...(origin && { origin }) };
  });
}

/** What a TDF says of its decision and its first key. */
function tdfHeader(tdf: Awaited<ReturnType<typeof readTdf>> | undefined) {
  if (tdf === undefined) return undefined;
  if (tdf.statement === undefined) return fail("the file names no decision");
  requireManifest(tdf.container.manifest, tdf.manifest, tdf.statement, undefined);
  const { binding, keys } = tdf.statement;
  return { binding, key: keys[0] };
}

/** Options that cannot be checked are refused. */
function requireSignatureFile({ artifact_profile, operation }: ReceiptsFile): void {
  if (artifact_profile !== "detached_signature" || operation === "access")
    throw new EnforcementError("invalid", "data and keys are those of a detached signature");
}

async function provenRecords(
  { operation, receipts }: ReceiptsFile,
  logKeys: readonly string[],
): Promise<ReadonlyMap<string, Proven>> {
  const { needs, may } = receiptNames(operation);
  const odd = Object.keys(receipts).find((name) => ![...needs, ...may].includes(name));
  if (odd !== undefined) fail(`no ${operation} has a receipt of the name ${JSON.stringify(odd)}`);
  const proven = new Map<string, Proven>();
  for (const [name, receipt] of Object.entries(receipts)) {
    if (receipt !== undefined) proven.set(name, await provenRecord(name, receipt, logKeys));
  }
  for (const name of needs) if (!proven.has(name)) fail(`there is no receipt of the ${name}`);
  return proven;
}

async function provenRecord(name: string, receipt: JsonObject, logKeys: readonly string[]): Promise<Proven> {
  try {
    const { record, leafIndex } = await verifyReceipt(messageOf(receipt), logKeys);
    if (record === undefined) throw new Error("it is a brief one, and shows a position only");
    return { record, leafIndex };
  } catch (error) {
    return fail(`the receipt of the ${name} does not verify: ${error instanceof Error ? error.message : error}`);
  }
}

/** Converts the JSON of a receipt. */
export function messageOf(receipt: JsonObject): Receipt {
  const text = (member: string) => String(receipt[member] ?? "");
  const optional = (member: string) => (receipt[member] === undefined ? {} : { [member]: text(member) });
  return create(ReceiptSchema, {
    recordId: text("record_id"),
    logOrigin: text("log_origin"),
    leafIndex: BigInt(text("leaf_index")),
    treeSize: BigInt(text("tree_size")),
    leafHash: text("leaf_hash"),
    proof: text("proof"),
    ...optional("leaf"),
    ...optional("opening"),
    ...optional("record"),
  });
}

/** The digest of an opened file, if the decision was about its content, as for a detached signature. */
async function openedContent(
  opened: string | RandomAccess,
  proven: ReadonlyMap<string, Proven>,
): Promise<JsonObject | undefined> {
  const isNamed = at(proven.get("plan")?.record, "request.content_digest") !== undefined;
  return withSource(opened, async (source) =>
    isNamed ? { digest: (await digestOf(piecesOf(source))).digest } : undefined,
  );
}

/** The originals of a rewrap, back to the first protection, as far as the receipts show them. */
async function chainOf(
  found: ReceiptsFile,
  proven: ReadonlyMap<string, Proven>,
  parts: { readonly binding: object },
  logKeys: readonly string[],
): Promise<{ readonly previous?: Proven | undefined; readonly origin?: VerifiedArtifact["origin"] }> {
  if (found.operation === "protect") {
    const { plan, registration } = Object.fromEntries(proven);
    return { origin: originOf(found, (registration ?? plan) as Proven) };
  }
  if (found.previous === undefined) return {};
  if (found.previous.operation === "access") fail("an artifact is said to be made of an opened file");
  const records = await provenRecords(found.previous, logKeys);
  const { previous, origin } = await chainOf(found.previous, records, parts, logKeys);
  const own = { ...parts, ...(previous && { previous: previous.record }) };
  checkRelations(found.previous, records, new Map(Object.entries(own) as [string, JsonObject][]), previous);
  return { previous: records.get("registration"), ...(origin && { origin }) };
}

function originOf({ decision_id, artifact_digest }: ReceiptsFile, { record }: Proven): VerifiedArtifact["origin"] {
  return { decisionId: decision_id, artifactDigest: artifact_digest, recordedAt: String(record.recorded_at) };
}

interface Relation {
  readonly same?: readonly string[];
  readonly is?: JsonValue;
  readonly within?: readonly string[];
  readonly operations?: readonly string[];
  readonly profiles?: readonly string[];
}

const relations: readonly Relation[] = recordRelations.artifact.relations;

/** Rejects with `not_authentic` if members that must be equal are not (`artifact.relations` of the table). */
function checkRelations(
  found: ReceiptsFile,
  proven: ReadonlyMap<string, Proven>,
  others: Parts,
  previous?: Proven,
): void {
  const { receipts: _, previous: __, ...file } = found;
  const records = [...proven].map(([name, { record }]) => [name, record] as const);
  const parts: Parts = new Map([...others, ...records, ["file", file as JsonObject]]);
  const valuesOf = (references: readonly string[] = []) =>
    references.flatMap((reference) => {
      const [part = "", path = ""] = reference.split(/\.(.*)/s);
      const holder = parts.get(part);
      return holder === undefined ? [] : [{ reference, value: at(holder, path) }];
    });
  for (const relation of relations) {
    if (!(relation.operations?.includes(found.operation) ?? true)) continue;
    if (!(relation.profiles?.includes(found.artifact_profile) ?? true)) continue;
    const [first, ...rest] = valuesOf(relation.same);
    if (first !== undefined && "is" in relation && !same(first.value, relation.is))
      fail(`${first.reference} is not ${JSON.stringify(relation.is)}`);
    const differing = rest.find(({ value }) => !same(value, first?.value));
    if (differing !== undefined) fail(`${differing.reference} is not ${first?.reference}`);
    const [inner, outer] = valuesOf(relation.within);
    if (inner !== undefined && outer !== undefined && !isWithin(inner.value, outer.value))
      fail(`${inner.reference} is more than ${outer.reference}`);
  }
  const places = { ...Object.fromEntries(proven), ...(previous && { previous }) } as Record<string, Proven | undefined>;
  const inOrder = recordRelations.artifact.order.flatMap((name) => places[name] ?? []);
  inOrder.forEach(({ leafIndex }, i) => {
    if (i > 0 && leafIndex <= (inOrder[i - 1] as Proven).leafIndex)
      fail("the records are not in the order of the work");
  });
}

function isWithin(inner: JsonValue | undefined, outer: JsonValue | undefined): boolean {
  return Array.isArray(inner) && Array.isArray(outer) && inner.every((item) => outer.includes(item));
}

/** As in records: an empty option is absent. */
function namedOf(resource: Resource): object {
  return Object.fromEntries(Object.entries(resource).filter(([name, text]) => name === "kind" || text !== ""));
}

/** What the records state, after everything was compared. */
function verified(found: ReceiptsFile, proven: ReadonlyMap<string, Proven>): VerifiedArtifact {
  const { plan, key_access, new_key_access, evidence } = Object.fromEntries(proven);
  const { record } = plan as Proven;
  const request = record.request as { readonly resource: Resource; readonly labels: readonly string[] } & JsonObject;
  return {
    operation: found.operation,
    profile: found.artifact_profile,
    artifactDigest: found.artifact_digest,
    artifactCid: found.artifact_cid,
    decisionId: found.decision_id,
    tenantId: String(record.tenant_id),
    principalId: String(at(record, "caller.principal_id")),
    resource: request.resource,
    labels: request.labels,
    keyReference: String(at((new_key_access ?? (key_access as Proven)).record, "request.key_reference")),
    records: [...proven]
      .sort(([, a], [, b]) => a.leafIndex - b.leafIndex)
      .map(([name, { record: shown }]) => ({
        name,
        kind: String(shown.kind),
        recordedAt: String(shown.recorded_at),
      })),
    isEvidencePending: evidence === undefined,
  };
}

async function checkSignature(signed: DetachedSignature, { data, keys }: VerifyOptions): Promise<void> {
  const { binding, key } = signed.header;
  if (keys !== undefined) {
    const signer = keys.find(({ reference }) => reference === key.reference);
    if (signer === undefined) throw new EnforcementError("invalid", `there is no key ${key.reference} here`);
    await requireSignature(signed, signer);
  }
  if (data === undefined) return;
  const file = await openFile(data);
  try {
    for await (const _ of requireContent(chunksOf(file), binding));
  } finally {
    await file.close();
  }
}

function fail(what: string): never {
  throw new EnforcementError("not_authentic", what);
}
