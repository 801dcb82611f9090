/**
 * Records on their way to the log. Request and outcome become canonical JSON early, so that sequencing, under the lock of
 * the log's head, only has to join texts. The lines of text are for a store in another thread: JSON text has no line
 * breaks, so they are all other members as JSON, the request, the outcome, and the answer for retries, if there is one.
 */
import { parseJson } from "../../base/json.ts";
import type { AppendableRecord, EncodedRecord } from "../ports/store.ts";
import { assertedCanonicalText } from "../record/canonical.ts";
import { contentTermsOf } from "../search/search-terms.ts";

/** Request and outcome are members of the record, so they are nested one level. */
const depth = 1;

/**
 * Encodes a record, once for its way to the log.
 *
 * @throws TypeError as `assertedCanonicalText` does, for a record that cannot be written as canonical JSON
 */
export function encodeRecord(record: AppendableRecord): EncodedRecord {
  const { kind, recordId, tenantId, requestId, route, policyRevision, idempotency } = record;
  const { auth_source, principal_id, subject } = record.caller;
  const found = contentTermsOf(record);
  const terms = found.length > 0 ? found : undefined;
  // In the order of canonical JSON, whose text then costs no more than any.
  const others = {
    caller: { auth_source, principal_id, subject },
    idempotency: idempotency && { payloadDigest: idempotency.payloadDigest, scope: idempotency.scope },
    ...{ kind, policyRevision, recordId, requestId, route, tenantId, terms },
  };
  const request = assertedCanonicalText(record.request, depth);
  const outcome = assertedCanonicalText(record.outcome, depth);
  const answer = idempotency && JSON.stringify(idempotency.answer);
  const lines = [assertedCanonicalText(others, 0), request, outcome];
  const text = (answer === undefined ? lines : [...lines, answer]).join("\n");
  return { ...others, request, outcome, answer, text } as EncodedRecord;
}

/** Reads the `text` of an encoded record. Throws for any other text. */
export function readRecordText(text: string): EncodedRecord {
  const lines = text.split("\n");
  const [json, request, outcome, answer] = lines;
  if (json === undefined || request === undefined || outcome === undefined || lines.length > 4)
    throw new TypeError("The text is not a record.");
  const others = parseJson(json) as Pick<EncodedRecord, "idempotency">;
  if ((others.idempotency === undefined) !== (answer === undefined)) throw new TypeError("The text is not a record.");
  return { ...others, request, outcome, answer, text } as EncodedRecord;
}
