/**
 * Records on their way to the log. Request and outcome become canonical JSON early, so that sequencing, under the lock of
 * the log's head, only has to join texts.
 */
import type { AppendableRecord, EncodedRecord } from "../ports/store.ts";
import { assertedCanonicalText, assertedJsonText } from "../record/canonical.ts";
import { contentTermsOf } from "../search/search-terms.ts";

/** Request and outcome are members of the record, so they are nested one level. */
const depth = 1;

/**
 * Encodes a record, once for its way to the log.
 *
 * @throws TypeError as `assertCanonical` does, for a record that cannot be written as canonical JSON
 */
export function encodeRecord(record: AppendableRecord): EncodedRecord {
  const { kind, recordId, tenantId, requestId, caller, route, policyRevision, idempotency } = record;
  const terms = contentTermsOf(record);
  const { answer, ...recognized } = idempotency ?? {};
  const others = {
    ...{ kind, recordId, tenantId, requestId, caller, route },
    ...(policyRevision !== undefined && { policyRevision }),
    ...(terms.length > 0 && { terms }),
  };
  const request = assertedCanonicalText(record.request, depth);
  const outcome = assertedCanonicalText(record.outcome, depth);
  const kept = answer === undefined ? "" : JSON.stringify(answer);
  const texts = [
    assertedJsonText({ ...others, ...(idempotency && { idempotency: recognized }) }),
    request,
    outcome,
    kept,
  ];
  return {
    ...others,
    ...{ request, outcome, sizeBytes: texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0) },
    ...(idempotency && { idempotency: { ...idempotency, answer: kept } }),
  };
}
