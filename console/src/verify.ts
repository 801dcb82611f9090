/** Verification in the browser, with WebCrypto and the client package's own checks. Nothing here uses the network. */
import { openCheckpoint, parseLogKey } from "@client/receipts/note.ts";
import { verifyReceipt } from "@client/receipts.ts";

/** A receipt as the JSON routes write it. */
export interface GivenReceipt {
  readonly record_id: string;
  readonly log_origin: string;
  readonly leaf_index: number;
  readonly tree_size: number;
  readonly leaf_hash: string;
  readonly proof: string;
  readonly leaf?: string;
  readonly opening?: string;
  readonly record?: string;
}

export interface RecordCaller {
  readonly principal_id: string;
  readonly subject: string;
  readonly auth_source: string;
}

/** A record of the ledger, in its own spelling. */
export interface LedgerRecord {
  readonly kind: string;
  readonly record_id: string;
  readonly log: string;
  readonly tenant_id: string;
  readonly recorded_at: string;
  readonly request_id: string;
  readonly route: string;
  readonly caller: RecordCaller;
  readonly request: Readonly<Record<string, unknown>>;
  readonly outcome: Readonly<Record<string, unknown>>;
}

/** What a receipt, or a checkpoint, proves. */
export interface Verified {
  readonly origin: string;
  readonly size: number;
  /** Hexadecimal. */
  readonly root: string;
  readonly leafIndex?: number;
  /** Absent for a checkpoint, and for a brief receipt, which proves a position only. */
  readonly record?: LedgerRecord;
}

const members: readonly string[] = [
  ...["record_id", "log_origin", "leaf_index", "tree_size", "leaf_hash", "proof", "leaf", "opening", "record"],
  // For tools of others: nothing here reads it.
  "cose",
];

/** Verifies a receipt by the keys of the log. Rejects with the reason if it does not verify. */
export async function verifyGiven(receipt: GivenReceipt, keys: readonly string[]): Promise<Verified> {
  const { leaf, opening, record } = receipt;
  // Nothing authenticates a further member.
  if (Object.keys(receipt).some((name) => !members.includes(name)))
    throw new Error("the receipt's members are not those of a receipt");
  const message = {
    recordId: receipt.record_id,
    logOrigin: receipt.log_origin,
    leafIndex: BigInt(receipt.leaf_index),
    treeSize: BigInt(receipt.tree_size),
    leafHash: receipt.leaf_hash,
    proof: receipt.proof,
    ...(leaf !== undefined && { leaf }),
    ...(opening !== undefined && { opening }),
    ...(record !== undefined && { record }),
  };
  const proven = await verifyReceipt(message as Parameters<typeof verifyReceipt>[0], keys);
  return {
    origin: proven.logOrigin,
    size: proven.treeSize,
    root: hex(proven.root),
    leafIndex: proven.leafIndex,
    ...(proven.record !== undefined && { record: proven.record as unknown as LedgerRecord }),
  };
}

/**
 * Verifies the receipt of one record, which it must show: nothing authenticates the id that a brief one names. Rejects
 * with the reason if it does not verify.
 */
export async function verifyRecord(
  id: string,
  receipt: GivenReceipt,
  keys: readonly string[],
): Promise<Verified & { readonly record: LedgerRecord }> {
  const { record, ...verified } = await verifyGiven(receipt, keys);
  if (record === undefined) throw new Error("the receipt is brief: it proves a position, and no record");
  if (record.record_id !== id) throw new Error("the listener answered with the receipt of another record");
  return { ...verified, record };
}

/** Verifies a signed checkpoint by the keys of the log. Rejects with the reason if it does not verify. */
export async function verifyCheckpoint(note: string, keys: readonly string[]): Promise<Verified> {
  const { origin, size, root } = await openCheckpoint(note, await Promise.all(keys.map(parseLogKey)));
  return { origin, size, root: hex(root) };
}

/** Verifies what a file holds: an answer with a receipt, a receipt, or a checkpoint. */
export async function verifyFile(text: string, keys: readonly string[]): Promise<Verified> {
  if (keys.length === 0) throw new Error("paste the key of the log first");
  if (!/^\s*[{[]/.test(text)) return verifyCheckpoint(text, keys);
  const receipt = findReceipt(parseJson(text));
  if (receipt === undefined) throw new Error("the file has no receipt");
  return verifyGiven(receipt, keys);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error("the file is neither JSON nor a checkpoint");
  }
}

/** The receipt itself, or that of an answer: where `ledger receipt verify` looks for it too. */
export function findReceipt(value: unknown): GivenReceipt | undefined {
  const answer = objectOf(value);
  const holders = ["decision", "registration", "ingestion", "context"].map((name) => objectOf(answer[name]).receipt);
  return [answer, answer.receipt, ...holders].map(objectOf).find(isReceipt);
}

function isReceipt(
  value: Readonly<Record<string, unknown>>,
): value is Readonly<Record<string, unknown>> & GivenReceipt {
  const isText = (member: string) => typeof value[member] === "string";
  const isOptionalText = (member: string) => value[member] === undefined || isText(member);
  return (
    ["record_id", "log_origin", "leaf_hash", "proof"].every(isText) &&
    ["leaf_index", "tree_size"].every((member) => Number.isSafeInteger(value[member])) &&
    ["leaf", "opening", "record"].every(isOptionalText)
  );
}

/** An object, or one without members if the value is something else. */
export function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
}

/** Keys as pasted: one on each line, or separated by spaces. */
export function keysIn(text: string): readonly string[] {
  return text.split(/\s+/).filter((key) => key !== "");
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
