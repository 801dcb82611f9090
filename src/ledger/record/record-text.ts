/**
 * Records as text, on their way to a store. Request and outcome become canonical JSON early, so that sequencing, under
 * the lock of the log's head, only has to join texts.
 */

import { contentTermsOf } from "../search/search-terms.ts";
import { assertedCanonicalText, assertedJsonText } from "./canonical.ts";
import type { AppendableRecord, EncodedRecord } from "./record.ts";

/** Request and outcome are members of the record, so they are nested one level. */
const depth = 1;

/**
 * Writes lines, because JSON text has no line breaks: all other members as JSON, the request, the outcome, and the
 * answer for retries, if there is one.
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

/** Reads the text of `recordText`. Throws for any other text. */
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

/** Encodes a record that stays in this thread. Throws like `recordText`. */
export function writeRecord(record: AppendableRecord): EncodedRecord {
  return readRecordText(recordText(record));
}
