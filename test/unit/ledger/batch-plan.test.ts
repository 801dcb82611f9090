import { expect, test } from "vitest";
import { planBatch } from "../../../src/ledger/append/batch-plan.ts";
import type { Idempotency } from "../../../src/ledger/ports/record.ts";
import type { CommittedRecord } from "../../../src/ledger/ports/store.ts";
import type { EncodedRecord } from "../../../src/ledger/record/record.ts";
import { writeRecord } from "../../../src/ledger/record/record-text.ts";
import { manualClock, recordMaker, seededRandom, tenant } from "../../contract/ledger-records.ts";

const makeRecord = recordMaker(manualClock(), seededRandom());

function made(scope?: string, payloadDigest = "1", answer = "first"): EncodedRecord {
  const idempotency: Idempotency | undefined =
    scope === undefined ? undefined : { scope, payloadDigest, answer: { answer } };
  return writeRecord(makeRecord(tenant("alice"), idempotency && { idempotency }));
}

const committed = (leafIndex: number) => ({ leafIndex }) as CommittedRecord;

test("a scope that comes twice in a batch is one record, with the first answer", () => {
  const plan = planBatch([made("a"), made(), made("a", "1", "second"), made("b")], () => undefined);
  expect(plan.fresh).toHaveLength(3);
  expect(plan.results([committed(5), committed(6), committed(7)])).toEqual([
    { leafIndex: 5 },
    { leafIndex: 6 },
    { leafIndex: 5, earlierAnswer: '{"answer":"first"}' },
    { leafIndex: 7 },
  ]);
});

test("a scope with two payloads in a batch is a conflict for the second", () => {
  const plan = planBatch([made("a"), made("a", "2"), made("a")], () => undefined);
  expect(plan.fresh).toHaveLength(1);
  expect(plan.results([committed(1)])).toMatchObject([{ leafIndex: 1 }, "conflict", { leafIndex: 1 }]);
});

test("what is known already is not appended", () => {
  const known = { a: "erased", b: "conflict", c: committed(3) } as const;
  const plan = planBatch([made("a"), made("b"), made("c"), made("c"), made("d")], ({ scope }) => known[scope as "a"]);
  expect(plan.fresh).toHaveLength(1);
  expect(plan.results([committed(9)])).toEqual([
    "erased",
    "conflict",
    { leafIndex: 3 },
    { leafIndex: 3 },
    { leafIndex: 9 },
  ]);
});
