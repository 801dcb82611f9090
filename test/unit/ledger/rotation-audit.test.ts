/** Which keys the records of a log say to have signed it, one after the other. */
import { expect, test } from "vitest";
import { formatBase64 } from "../../../src/base/text-forms.ts";
import { RotationAudit, rotationProblem } from "../../../src/ledger/audit/audit.ts";
import type { StoredRecord } from "../../../src/ledger/ports/record.ts";

const keys = [0, 1, 2].map((fill) => new Uint8Array(32).fill(fill)) as [Uint8Array, Uint8Array, Uint8Array];
const recordOf = (kind: string, outcome: object) => ({ kind, outcome }) as StoredRecord;
const genesis = (key?: Uint8Array) => recordOf("genesis", key === undefined ? {} : { public_key: formatBase64(key) });
const rotation = (from: Uint8Array, to: Uint8Array) =>
  recordOf("key_rotation", { public_key: formatBase64(to), previous_public_key: formatBase64(from) });

/** What is wrong with a log of these records in a store with all keys; undefined where nothing is. */
function problemOf(...records: readonly StoredRecord[]): string | undefined {
  const audit = new RotationAudit();
  try {
    for (const [leafIndex, record] of records.entries()) audit.next(leafIndex, record);
  } catch (error) {
    return (error as Error).message;
  }
  return rotationProblem(audit, keys)?.message;
}

const [first, second, third] = keys;
const [toSecond, toThird] = [rotation(first, second), rotation(second, third)];
test.each([
  ["each key hands over to the next", [genesis(first), toSecond, toThird], undefined],
  ["it began with a later key", [genesis(second), toThird], undefined],
  ["its genesis is from before it named a key", [genesis(), toSecond, toThird], undefined],
  ["its genesis names no key, and it was never rotated", [genesis()], undefined],
  ["its genesis names none of the keys", [genesis(new Uint8Array(32).fill(9))], /never signed for this store/],
  ["its genesis names what is no key", [recordOf("genesis", { public_key: "AAAA" })], /names an invalid key/],
  ["its only rotation is missing", [genesis(second)], /no leaf hands over from the key of the genesis record/],
  ["the first rotation is missing", [genesis(first), toThird], /leaf 1 retires another key than the one that the gen/],
  ["a rotation comes again", [genesis(first), toSecond, toSecond], /another key than the one that leaf 1 brought/],
])("the audit decides about a log whose %s", (_what, records, problem) => {
  if (problem === undefined) expect(problemOf(...records)).toBeUndefined();
  else expect(problemOf(...records)).toMatch(problem);
});
