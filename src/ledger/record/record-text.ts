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
 * Lines, for JSON has no line breaks: all other members as JSON, the request, the outcome, and the answer that is kept for
 * retries, where there is one.
 *
 * @throws TypeError as `assertCanonical` does, for a record that cannot be written as canonical JSON
 */
export function recordText(record: AppendableRecord): string {
  const { kind, recordId, tenantId, requestId, caller, route, policyRevision, idempotency } = record;
  const found = contentTermsOf(record);
  const terms = found.length > 0 ? found : undefined;
  const { answer, ...recognized } = idempotency ?? {};
  const others = {
    ...{ kind, recordId, tenantId, requestId, caller, route, policyRevision, terms },
    idempotency: idempotency && recognized,
  };
  const request = assertedCanonicalText(record.request, depth);
  const outcome = assertedCanonicalText(record.outcome, depth);
  const kept = answer === undefined ? "" : `\n${JSON.stringify(answer)}`;
  return `${assertedJsonText(others)}\n${request}\n${outcome}${kept}`;
}

/** Reads what `recordText` wrote. Throws for any other text. */
export function readRecordText(text: string): EncodedRecord {
  const lines = text.split("\n");
  const [others, request, outcome, answer] = lines;
  if (others === undefined || request === undefined || outcome === undefined || lines.length > 4)
    throw new TypeError("The text is no record's.");
  const record = Object.assign(JSON.parse(others) as EncodedRecord, { request, outcome });
  if ((record.idempotency === undefined) !== (answer === undefined)) throw new TypeError("The text is no record's.");
  if (answer !== undefined) Object.assign(record.idempotency as object, { answer });
  return record;
}

/** A record that crosses no thread. Throws like `recordText`. */
export function writeRecord(record: AppendableRecord): EncodedRecord {
  return readRecordText(recordText(record));
}
