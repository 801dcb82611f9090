/** The file beside an artifact that shows, offline, what the ledger has of it. */
import { readFile } from "node:fs/promises";
import type { JsonObject } from "@bufbuild/protobuf";
import { parseLogKey } from "../receipts/note.ts";
import { EnforcementError } from "./errors.ts";
import { replaceFile } from "./files.ts";
import type { Operation, Profile } from "./platform.ts";

export const receiptsFormat = "svc-platform-receipts/v1";

export interface ReceiptsFile {
  readonly format: typeof receiptsFormat;
  readonly operation: Operation;
  readonly artifact_profile: Profile;
  readonly artifact_digest: string;
  readonly artifact_cid: string;
  /** Of the decision that was carried out. */
  readonly decision_id: string;
  /** Idempotency key of the event; its receipt is added when the ledger has it. */
  readonly evidence_id: string;
  /** Receipts in the JSON of the contract. */
  readonly receipts: {
    readonly plan?: JsonObject;
    readonly key_access?: JsonObject;
    /** Of the new key, where a rewrap asked for it too. */
    readonly new_key_access?: JsonObject;
    readonly registration?: JsonObject;
    readonly evidence?: JsonObject;
  };
}

/** Where the receipts of an artifact, or of an opened file, are. */
export function receiptsPathOf(path: string): string {
  return `${path}.receipts.json`;
}

export async function writeReceipts(path: string, receipts: ReceiptsFile): Promise<void> {
  await replaceFile(path, Buffer.from(`${JSON.stringify(receipts, undefined, 2)}\n`));
}

/** Rejects with `invalid` where one cannot be read: a mistake of the caller says nothing about receipts. */
export async function requireLogKeys(logKeys: readonly string[]): Promise<void> {
  for (const text of logKeys) {
    await parseLogKey(text).catch((cause: unknown) => {
      throw new EnforcementError("invalid", cause instanceof Error ? cause.message : String(cause), { cause });
    });
  }
}

/** Rejects with `invalid` where the file is none. */
export async function readReceipts(path: string): Promise<ReceiptsFile> {
  try {
    const value = JSON.parse(await readFile(path, "utf8")) as ReceiptsFile;
    if (value.format === receiptsFormat && typeof value.receipts === "object") return value;
  } catch (cause) {
    throw new EnforcementError("invalid", `${path} cannot be read`, { cause });
  }
  throw new EnforcementError("invalid", `${path} is no receipts file of this format`);
}

/** Adds the receipt of an event that was sent later. A file that is gone, or tells of another event, is left alone. */
export async function addReceipt(path: string, evidenceId: string, receipt: JsonObject): Promise<void> {
  const found = await readReceipts(path).catch(() => undefined);
  if (found?.evidence_id !== evidenceId) return;
  await writeReceipts(path, { ...found, receipts: { ...found.receipts, evidence: receipt } });
}
