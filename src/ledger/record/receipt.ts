/** Receipts: a caller's evidence of a record, which can be checked without asking the service. */
import { isObject, type JsonObject, objectOf, orUndefined, parseJson } from "../../base/json.ts";
import { isMoment, parseBase64 } from "../../base/text-forms.ts";
import type { StoredRecord } from "../ports/record.ts";
import type { LogState } from "../ports/store.ts";
import { verifyCoseReceipt } from "../tlog/cose-receipt.ts";
import { NoteError } from "../tlog/note.ts";
import type { NoteVerifier } from "../tlog/note-keys.ts";
import { verifyTlogProof } from "../tlog/tlog-proof.ts";
import { leafHash, sameHash } from "../tlog/tree.ts";
import { assertedCanonicalText } from "./canonical.ts";
import { type Leaf, leafBytes, parseLeaf } from "./leaf.ts";
import { requestDigest } from "./record.ts";
import { openingBytes, verifyCommitment } from "./sealing.ts";

/** The members of an answer's `receipt` that verification reads. */
export interface GivenReceipt {
  readonly record_id: string;
  readonly log_origin: string;
  readonly leaf_index: number;
  readonly tree_size: number;
  /** Base64, like the last three. */
  readonly leaf_hash: string;
  readonly proof: string;
  readonly leaf?: string;
  readonly opening?: string;
  readonly record?: string;
  /** COSE receipt, base64. */
  readonly cose?: string;
}

const positionMembers = ["record_id", "log_origin", "leaf_index", "tree_size", "leaf_hash", "proof"] as const;
const materialMembers = ["leaf", "opening", "record"] as const;

/** Finds a receipt in parsed JSON: the receipt itself, or an answer that has one. Undefined if there is none. */
export function findReceipt(value: unknown): GivenReceipt | undefined {
  const answer = objectOf(value);
  const candidates = [answer, answer.receipt, ...receiptHolders.map((holder) => objectOf(answer[holder]).receipt)];
  return candidates.map(objectOf).find(isReceipt);
}

const receiptHolders = ["decision", "registration", "ingestion", "context"] as const;

function isReceipt(value: JsonObject): value is JsonObject & GivenReceipt {
  const isText = (member: string) => typeof value[member] === "string";
  return (
    ["record_id", "log_origin", "leaf_hash", "proof"].every(isText) &&
    ["leaf_index", "tree_size"].every((member) => Number.isSafeInteger(value[member])) &&
    [...materialMembers, "cose"].every((member) => value[member] === undefined || isText(member))
  );
}

/** What a receipt proves. */
export interface VerifiedReceipt {
  readonly leafIndex: number;
  readonly treeSize: number;
  readonly root: Uint8Array;
  /** The record; absent if the receipt has none, and then only the position of a hash is proven. */
  readonly record?: StoredRecord;
}

/**
 * Checks a receipt against the key that the verifier trusts. Throws a NoteError that describes the failure. Does not
 * show that the record is true, nor that it was not erased since.
 *
 * @param trusted all keys that the verifier trusts: a COSE receipt by any of them must have a right signature
 */
export function verifyReceipt(
  receipt: GivenReceipt,
  verifier: NoteVerifier,
  trusted: readonly NoteVerifier[] = [verifier],
): VerifiedReceipt {
  // Unknown members are refused, because nothing authenticates them.
  const known: readonly string[] = [...positionMembers, ...materialMembers, "cose"];
  if (!Object.keys(receipt).every((member) => known.includes(member))) fail("members are not those of a receipt");
  const hash = bytes(receipt.leaf_hash, "leaf_hash");
  const proven = verifyTlogProof(receipt.proof, hash, verifier);
  const { index, checkpoint } = proven;
  const expected = { log_origin: checkpoint.origin, leaf_index: index, tree_size: checkpoint.size };
  for (const [member, value] of Object.entries(expected)) {
    if (receipt[member as keyof typeof expected] !== value)
      throw new NoteError(`The receipt's ${member} is not what its proof shows.`);
  }
  const { cose } = receipt;
  if (cose !== undefined) for (const key of trusted) verifyCoseReceipt(bytes(cose, "cose"), proven, key);
  const position = { leafIndex: index, treeSize: checkpoint.size, root: checkpoint.root };
  const given = materialMembers.filter((member) => receipt[member] !== undefined);
  if (given.length === 0) return position;
  if (given.length < materialMembers.length)
    throw new NoteError("The receipt has only a part of leaf, opening, record.");
  return { ...position, record: verifyMaterial(receipt, hash) };
}

/** Returns the record, proven to be the one that the leaf with this hash commits to. */
function verifyMaterial(receipt: GivenReceipt, hash: Uint8Array): StoredRecord {
  const leafBytes = bytes(receipt.leaf, "leaf");
  if (!sameHash(leafHash(leafBytes), hash)) throw new NoteError("The receipt's leaf_hash is not its leaf's.");
  const leaf = readExactLeaf(leafBytes) ?? fail("leaf cannot be read");
  const recordBytes = bytes(receipt.record, "record");
  const opening = bytes(receipt.opening, "opening");
  if (opening.length !== openingBytes || !verifyCommitment(recordBytes, opening, leaf.commitment))
    fail("record is not the one that its leaf commits to");
  const record = readExactRecord(recordBytes) ?? fail("record cannot be read");
  const problem = recordDisagreement(record, leaf);
  if (problem !== undefined) fail(`record ${problem}`);
  if (record.record_id !== receipt.record_id || record.log !== receipt.log_origin)
    fail("record, leaf and members do not name the same record");
  return record;
}

function bytes(text: string | undefined, member: string): Uint8Array {
  const parsed = text === undefined ? undefined : parseBase64(text);
  if (parsed === undefined) throw new NoteError(`The receipt's ${member} is not base64.`);
  return parsed;
}

function fail(problem: string): never {
  throw new NoteError(`The receipt's ${problem}.`);
}

// Strict readers of leaves and records from outside: only the members that docs/reference/ledger-formats.md names.

const commitmentPattern = /^hmac-sha256:[0-9a-f]{64}$/;

/** Parses the exact bytes of a leaf; undefined for anything that `leafBytes` does not write. */
export function readExactLeaf(bytes: Uint8Array): Leaf | undefined {
  return orUndefined(() => {
    const leaf = parseLeaf(bytes);
    assertedCanonicalText(leaf, 0);
    const { kind, record_id, recorded_at, policy_revision = "", commitment } = leaf;
    if (![kind, record_id, policy_revision].every(isText) || !isMoment(recorded_at)) return undefined;
    if (!isText(commitment) || !commitmentPattern.test(commitment)) return undefined;
    // Writing must give the same bytes: no other members, and no other spelling.
    return Buffer.compare(leafBytes(leaf), bytes) === 0 ? leaf : undefined;
  });
}

const textMembers = [
  "kind",
  "record_id",
  "log",
  "tenant_id",
  "recorded_at",
  "request_id",
  "route",
  "request_digest",
] as const satisfies readonly (keyof StoredRecord)[];
const objectMembers = ["caller", "request", "outcome"] as const satisfies readonly (keyof StoredRecord)[];
const callerMembers = [
  "auth_source",
  "principal_id",
  "subject",
] as const satisfies readonly (keyof StoredRecord["caller"])[];

/** Parses the exact bytes of a record; undefined for anything that `recordBytes` does not write. */
export function readExactRecord(bytes: Uint8Array): StoredRecord | undefined {
  return orUndefined(() => {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    const record = parseJson(text) as StoredRecord;
    const isRecord =
      hasExactly(record, [...textMembers, ...objectMembers]) &&
      hasExactly(record.caller, callerMembers) &&
      textMembers.every((member) => isText(record[member])) &&
      callerMembers.every((member) => isText(record.caller[member])) &&
      objectMembers.every((member) => isObject(record[member]));
    return isRecord && assertedCanonicalText({ ...record }, 0) === text ? record : undefined;
  });
}

/** The log and tenant that a record must have. */
export type RecordOwner = Pick<LogState, "origin" | "tenantId">;

/**
 * Returns the contradiction between a record and its leaf, between it and its owner if that is given, or within the
 * record; undefined if there is none.
 */
export function recordDisagreement(record: StoredRecord, leaf: Leaf, owner?: RecordOwner): string | undefined {
  if (owner !== undefined && record.tenant_id !== owner.tenantId) return "is of another tenant";
  if (owner !== undefined && record.log !== owner.origin) return "is of another log";
  for (const member of ["record_id", "kind", "recorded_at"] as const)
    if (record[member] !== leaf[member]) return `has another ${member} than its leaf`;
  const { policy_revision: revision } = record.outcome;
  if (record.kind === "decision" && revision !== undefined && revision !== leaf.policy_revision)
    return "has another policy_revision than its leaf";
  return record.request_digest === requestDigest(record.request) ? undefined : "has another request than its digest";
}

function hasExactly(value: unknown, members: readonly string[]): boolean {
  return (
    isObject(value) &&
    Object.keys(value).length === members.length &&
    members.every((name) => Object.hasOwn(value, name))
  );
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}
