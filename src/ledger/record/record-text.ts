/**
 * Records as text, on their way into a store. Request and outcome become canonical JSON at once: whoever sequences the
 * record, under the lock of the log's head, only puts them where they belong.
 */

import { contentTermsOf } from "../search/search-terms.ts";
import { assertedCanonicalText, assertedJsonText } from "./canonical.ts";
import type { AppendableRecord, EncodedRecord } from "./record.ts";

/** Request and outcome are members of the record, and their nesting is the record's. */
const depth = 1;

/**
 * Three lines, for JSON has no line breaks: all other members as JSON, the request, the outcome.
 *
 * @throws TypeError as `assertCanonical` does, for a record that cannot be written as canonical JSON
 */
export function recordText(record: AppendableRecord): string {
  const { kind, recordId, tenantId, requestId, caller, route, policyRevision, idempotency } = record;
  const found = contentTermsOf(record);
  const terms = found.length > 0 ? found : undefined;
  const others = { kind, recordId, tenantId, requestId, caller, route, policyRevision, idempotency, terms };
  const request = assertedCanonicalText(record.request, depth);
  const outcome = assertedCanonicalText(record.outcome, depth);
  return `${assertedJsonText(others)}\n${request}\n${outcome}`;
}

/** Reads what `recordText` wrote. Throws for any other text. */
export function readRecordText(text: string): EncodedRecord {
  const lines = text.split("\n");
  const [others, request, outcome] = lines;
  if (others === undefined || request === undefined || outcome === undefined || lines.length > 3)
    throw new TypeError("The text is no record's.");
  return Object.assign(JSON.parse(others) as Omit<EncodedRecord, "request" | "outcome">, { request, outcome });
}

/** A record that crosses no thread. Throws like `recordText`. */
export function writeRecord(record: AppendableRecord): EncodedRecord {
  return readRecordText(recordText(record));
}
