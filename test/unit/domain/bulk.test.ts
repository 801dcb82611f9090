/** Many items in one call: what refuses one alone, and what refuses all of them. */
import { describe, expect, test } from "vitest";
import { reasons, ServiceError } from "../../../src/base/errors.ts";
import type { TenantId } from "../../../src/base/ids.ts";
import { parseRecordId } from "../../../src/base/ids.ts";
import { type BulkLedger, handleAll } from "../../../src/domain/bulk.ts";
import type { NewRecord } from "../../../src/ledger/ports/record.ts";
import { FakeLedger, identity, must } from "./world.ts";

const cited = must(parseRecordId("01890a5d-ac96-774b-bcce-b302099a8057"));
const recordOf = (index: number) =>
  ({
    tenantId: identity().caller.tenantId,
    recordId: `record-${index}`,
    request: {},
    outcome: {},
  }) as unknown as NewRecord;

/** Five items, of which the third looks something up first. */
function callOn(ledger: BulkLedger) {
  return handleAll(ledger, identity(), {
    count: 5,
    handle: async (index, { caller }, own) => {
      if (index === 2) await own.find(caller.tenantId, cited);
      return own.append(recordOf(index));
    },
    pause: async () => {},
  });
}

class FailingLedger extends FakeLedger {
  readonly refusal: ServiceError;
  constructor(refusal: ServiceError) {
    super(() => 0);
    this.refusal = refusal;
  }
  override async find(_tenantId: TenantId): Promise<never> {
    throw this.refusal;
  }
}

const ofItems = ["invalid_request", "idempotency_conflict", "body_too_large", "internal"] as const;
const passing = Object.entries(reasons).flatMap(([reason, { httpStatus }]) =>
  httpStatus > 500 || [408, 429, 499].includes(httpStatus) ? [reason as keyof typeof reasons] : [],
);

describe("an item that is refused", () => {
  test.each(ofItems)("for %s is refused alone", async (reason) => {
    const ledger = new FailingLedger(new ServiceError(reason, "no"));
    const results = await callOn(ledger);
    expect(results.map((result) => result !== undefined && "answer" in result)).toEqual([
      true,
      true,
      false,
      true,
      true,
    ]);
    expect(ledger.records).toHaveLength(4);
  });

  test.each(passing)(
    "for %s, a temporary reason, refuses the call: nothing is recorded, and no item has a final refusal",
    async (reason) => {
      const refusal = new ServiceError(reason, "later");
      const ledger = new FailingLedger(refusal);
      await expect(callOn(ledger)).rejects.toBe(refusal);
      expect(ledger.records).toEqual([]);
    },
  );
});
