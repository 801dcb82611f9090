/** The file beside an artifact that proves its records offline. */
import type { JsonObject } from "@bufbuild/protobuf";
import { recordRelations } from "../../../../gen/record-relations.ts";
import { parseLogKey } from "../receipts/note.ts";
import { readSmallFile } from "./data.ts";
import { EnforcementError } from "./errors.ts";
import { replaceFile } from "./files.ts";
import { areTexts } from "./header.ts";
import type { Operation, Profile } from "./platform.ts";

export const receiptsFormat = "svc-platform-receipts/v1";

export interface ReceiptsFile {
  readonly format: typeof receiptsFormat;
  readonly operation: Operation;
  readonly artifact_profile: Profile;
  readonly artifact_digest: string;
  readonly artifact_cid: string;
  /** The decision that was carried out. */
  readonly decision_id: string;
  /** Idempotency key of the event, whose receipt is added when the ledger has it. */
  readonly evidence_id: string;
  /** For a rewrap: the receipts of the original. Absent if there were none. */
  readonly previous?: ReceiptsFile;
  /** Receipts in the JSON of the contract. */
  readonly receipts: {
    readonly plan?: JsonObject;
    readonly key_access?: JsonObject;
    /** For the new key, if a rewrap asked for it too. */
    readonly new_key_access?: JsonObject;
    readonly registration?: JsonObject;
    readonly evidence?: JsonObject;
  };
}

/** Path of the receipts of an artifact, or of an opened file. */
export function receiptsPathOf(path: string): string {
  return `${path}.receipts.json`;
}

export async function writeReceipts(path: string, receipts: ReceiptsFile): Promise<void> {
  await replaceFile(path, Buffer.from(`${JSON.stringify(receipts, undefined, 2)}\n`));
}

/** Rejects with `invalid` if one is malformed: a caller's mistake proves nothing about receipts. */
export async function requireLogKeys(logKeys: readonly string[]): Promise<void> {
  for (const text of logKeys) {
    await parseLogKey(text).catch((cause: unknown) => {
      throw new EnforcementError("invalid", cause instanceof Error ? cause.message : String(cause), { cause });
    });
  }
}

/** The given receipts, or those beside the artifact. Rejects with `invalid` if there are none, or they are malformed. */
export async function receiptsFor(artifact: unknown, given: string | ReceiptsFile | undefined): Promise<ReceiptsFile> {
  if (typeof given === "string") return readReceipts(given);
  if (given === undefined && typeof artifact === "string") return readReceipts(receiptsPathOf(artifact));
  // What is compared must not change meanwhile.
  const receipts: unknown = given === undefined ? undefined : structuredClone(given);
  if (!isReceiptsFile(receipts)) throw new EnforcementError("invalid", "there are no receipts of this format");
  return receipts;
}

const maxFileBytes: number = recordRelations.artifact.max_file_bytes;

/** Rejects with `invalid` if the file is malformed. */
export async function readReceipts(path: string, maxBytes = maxFileBytes): Promise<ReceiptsFile> {
  const bytes = await readSmallFile(path, maxBytes);
  let value: unknown;
  try {
    value = JSON.parse(bytes.toString("utf8"));
  } catch (cause) {
    throw new EnforcementError("invalid", `${path} cannot be read`, { cause });
  }
  if (!isReceiptsFile(value)) throw new EnforcementError("invalid", `${path} is no receipts file of this format`);
  return value;
}

/** Names of the receipts of an operation: required ones, and those that may come later. */
export function receiptNames(operation: Operation): {
  readonly needs: readonly string[];
  readonly may: readonly string[];
} {
  return recordRelations.artifact.parts[operation];
}

function isReceiptsFile(value: unknown, links = 0): value is ReceiptsFile {
  if (typeof value !== "object" || value === null) return false;
  const members = value as Readonly<Record<string, unknown>>;
  const texts = ["artifact_profile", "artifact_digest", "artifact_cid", "decision_id", "evidence_id"];
  const { format, operation, receipts, previous } = members;
  if (format !== receiptsFormat || !areTexts(members, texts) || !isOperation(operation)) return false;
  if (typeof receipts !== "object" || receipts === null) return false;
  if (!Object.values(receipts).every((receipt) => typeof receipt === "object" && receipt !== null)) return false;
  if (previous === undefined) return true;
  return operation === "rewrap" && links < recordRelations.artifact.max_chain && isReceiptsFile(previous, links + 1);
}

function isOperation(value: unknown): value is Operation {
  return typeof value === "string" && Object.hasOwn(recordRelations.artifact.parts, value);
}

/** The receipts of an artifact that is rewrapped, if present: its successor includes them, unless they are too large. */
export async function previousOf(input: unknown, artifactDigest: string): Promise<ReceiptsFile | undefined> {
  if (typeof input !== "string") return undefined;
  // What the successor adds is less than half of a file.
  const found = await readReceipts(receiptsPathOf(input), maxFileBytes / 2).catch(() => undefined);
  const isOwn = found?.operation !== "access" && found?.artifact_digest === artifactDigest;
  return isOwn && isReceiptsFile(found, 1) ? found : undefined;
}

/** Adds the receipt of an event that was sent later. Ignores a file that is gone, or belongs to another event. */
export async function addReceipt(path: string, evidenceId: string, receipt: JsonObject): Promise<void> {
  const found = await readReceipts(path).catch(() => undefined);
  if (found?.evidence_id !== evidenceId) return;
  await writeReceipts(path, { ...found, receipts: { ...found.receipts, evidence: receipt } });
}
