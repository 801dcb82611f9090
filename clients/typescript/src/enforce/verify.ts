/** What the receipts beside an artifact prove, offline: against the keys of the log that the verifier trusts. */
import type { JsonObject } from "@bufbuild/protobuf";
import { create } from "@bufbuild/protobuf";
import { verifyReceipt } from "../receipts.ts";
import { ByteReader } from "./byte-reader.ts";
import { type Receipt, ReceiptSchema } from "./client.ts";
import { digestOf, openFile } from "./data.ts";
import { type DetachedSignature, readSignature, requireContent, requireSignature } from "./detached-signature.ts";
import { readHeader } from "./envelope.ts";
import { EnforcementError } from "./errors.ts";
import { chunksOf } from "./files.ts";
import type { Binding } from "./header.ts";
import { type ReceiptsFile, readReceipts, receiptsPathOf, requireLogKeys } from "./receipts.ts";
import type { SigningKey } from "./signing-keys.ts";

/** A record of the ledger, as far as it is looked at here. */
interface LedgerRecord {
  readonly kind: string;
  readonly record_id: string;
  readonly recorded_at: string;
  readonly request: Readonly<Record<string, unknown>>;
  readonly outcome: Readonly<Record<string, unknown>>;
}

export interface VerifyOptions {
  /** Path of the artifact, or of the file that was opened. */
  readonly artifact: string;
  /** Default: the file beside it. */
  readonly receipts?: string;
  /** Of a detached signature: path of the data, which must be what was signed. Default: it is not looked at. */
  readonly data?: string;
  /** Of a detached signature: keys of which the one that it names must have made it. Default: it is not looked at. */
  readonly keys?: readonly SigningKey[];
  /** C2SP verifier keys of the tenant's log, from the operator; one of them must hold. */
  readonly logKeys: readonly string[];
}

export interface VerifiedArtifact {
  readonly operation: string;
  readonly artifactDigest: string;
  readonly decisionId: string;
  /** What was shown, in the order of the log. */
  readonly records: readonly { readonly name: string; readonly kind: string; readonly recordedAt: string }[];
  /** Whether the event is not among them: it was still on its way. */
  readonly isEvidencePending: boolean;
}

/**
 * Checks that the log holds the decisions, the registration and the event of this very artifact, and that its header is
 * bound to them. Rejects with `not_authentic` where something does not hold. Decrypts nothing; looks at a signature and its
 * data where it is given keys and data.
 */
export async function verifyArtifact(options: VerifyOptions): Promise<VerifiedArtifact> {
  await requireLogKeys(options.logKeys);
  const found = await readReceipts(options.receipts ?? receiptsPathOf(options.artifact));
  const proven = new Map<string, LedgerRecord>();
  for (const [name, receipt] of Object.entries(found.receipts)) {
    if (receipt !== undefined) proven.set(name, await provenRecord(name, receipt, options.logKeys));
  }
  const required = found.operation === "access" ? ["plan", "key_access"] : ["plan", "key_access", "registration"];
  for (const name of required) if (!proven.has(name)) fail(`there is no receipt of the ${name}`);
  checkDecisions(found, proven);
  if ((options.data ?? options.keys) !== undefined) requireSignatureFile(found);
  if (found.operation !== "access") await checkArtifact(options, found, proven);
  const event = proven.get("evidence");
  if (event !== undefined && (event.kind !== "evidence" || event.request.artifact_digest !== found.artifact_digest))
    fail("the event is of another artifact");
  return {
    operation: found.operation,
    artifactDigest: found.artifact_digest,
    decisionId: found.decision_id,
    records: [...proven].map(([name, { kind, recorded_at }]) => ({ name, kind, recordedAt: recorded_at })),
    isEvidencePending: event === undefined,
  };
}

/** What is asked for is looked at, or it fails. */
function requireSignatureFile({ artifact_profile, operation }: ReceiptsFile): void {
  if (artifact_profile !== "detached_signature" || operation === "access")
    throw new EnforcementError("invalid", "data and keys are those of a detached signature");
}

async function provenRecord(name: string, receipt: JsonObject, logKeys: readonly string[]): Promise<LedgerRecord> {
  try {
    const { record } = await verifyReceipt(messageOf(receipt), logKeys);
    if (record === undefined) throw new Error("it is a brief one, and shows a position only");
    return record as unknown as LedgerRecord;
  } catch (error) {
    return fail(`the receipt of the ${name} does not verify: ${error instanceof Error ? error.message : error}`);
  }
}

/** Reads the JSON of a receipt. */
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

function checkDecisions(found: ReceiptsFile, proven: ReadonlyMap<string, LedgerRecord>): void {
  for (const name of ["plan", "key_access", "new_key_access"]) {
    const record = proven.get(name);
    if (record === undefined) continue;
    if (record.kind !== "decision" || record.outcome.allow !== true) fail(`the ${name} is no decision that allows`);
  }
  if (proven.get("plan")?.record_id !== found.decision_id) fail("the plan is another decision");
  if (proven.get("plan")?.request.operation !== found.operation) fail("the plan is for another operation");
}

async function checkArtifact(
  options: VerifyOptions,
  found: ReceiptsFile,
  proven: ReadonlyMap<string, LedgerRecord>,
): Promise<void> {
  const path = options.artifact;
  const file = await openFile(path);
  try {
    const { digest, cid } = await digestOf(file);
    if (digest !== found.artifact_digest || cid !== found.artifact_cid) fail("the artifact is not the one registered");
    const registration = proven.get("registration");
    if (registration?.kind !== "registration" || registration.outcome.accepted !== true)
      fail("the registration does not stand");
    if (registration?.request.artifact_digest !== digest) fail("the registration is of another artifact");
    if (registration?.request.decision_id !== found.decision_id) fail("the registration cites another decision");
    if (registration?.request.artifact_profile !== found.artifact_profile)
      fail("the registration is of another profile");
    if (found.artifact_profile === "detached_signature") {
      const signed = await readSignature(path);
      if (signed.artifact.digest !== digest) fail("the artifact changed while it was read");
      checkHeader(signed.header, found, proven);
      await checkSignature(signed, options, proven);
    } else checkHeader(await readHeader(new ByteReader(chunksOf(file))), found, proven);
  } finally {
    await file.close();
  }
}

function checkHeader(
  { binding, key }: { readonly binding: Binding; readonly key: { readonly decision_id: string } },
  { operation }: ReceiptsFile,
  proven: ReadonlyMap<string, LedgerRecord>,
): void {
  const plan = proven.get("plan");
  if (operation === "protect") {
    if (plan?.record_id !== binding.decision_id) fail("the artifact is bound to another decision");
    if (plan?.outcome.policy_revision !== binding.policy_revision) fail("the artifact names another policy revision");
  }
  const keyAccess = proven.get(operation === "rewrap" ? "new_key_access" : "key_access");
  if (keyAccess?.record_id !== key.decision_id) fail("the key is bound to another decision");
  const resource = plan?.request.resource as Readonly<Record<string, unknown>> | undefined;
  for (const member of ["kind", "id"] as const)
    if (resource?.[member] !== binding.resource[member]) fail("the decision is about another resource");
}

async function checkSignature(
  signed: DetachedSignature,
  { data, keys }: VerifyOptions,
  proven: ReadonlyMap<string, LedgerRecord>,
): Promise<void> {
  const { binding, key } = signed.header;
  if (proven.get("plan")?.request.content_digest !== binding.content_digest) fail("the decision is about other data");
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
