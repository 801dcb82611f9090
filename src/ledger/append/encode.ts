/** Records as they are queued. */
import { ServiceError } from "../../base/errors.ts";
import type { NewRecord } from "../ports/record.ts";
import { recordText } from "../record/record-text.ts";
import type { Waiting } from "./queues.ts";

export type EncodedRecord = Pick<Waiting, "recordId" | "json" | "sizeBytes" | "shown">;

/** @throws ServiceError `invalid_request` for a record that is larger, or has no canonical JSON */
export function encodeRecord(record: NewRecord, maxRecordBytes: number): EncodedRecord {
  const json = textOf(record);
  const sizeBytes = Buffer.byteLength(json);
  if (sizeBytes > maxRecordBytes) throw tooLarge(maxRecordBytes);
  return { recordId: record.recordId, json, sizeBytes };
}

function textOf(record: NewRecord): string {
  try {
    return recordText(record);
  } catch (cause) {
    const problem = cause instanceof Error ? cause.message : "cannot be recorded";
    throw new ServiceError("invalid_request", `The request ${problem}.`, { cause });
  }
}

function tooLarge(maxRecordBytes: number): ServiceError {
  return new ServiceError("invalid_request", `The request is too large to be recorded (over ${maxRecordBytes} bytes).`);
}
