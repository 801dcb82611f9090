import { expect, test } from "vitest";
import { storeReadiness } from "../../../src/app/stores.ts";
import { runChecks } from "../../../src/ops/readiness.ts";

const timers = { after: () => () => {} };

test.each<[stuck: string[], reason: string | undefined]>([
  [[], undefined],
  [["tenant-a"], "the database does not get on with tenant-a"],
  [["a", "b", "c"], "the database does not get on with a, b, c"],
  [["a", "b", "c", "d", "e"], "the database does not get on with a, b, c, and 2 more"],
])("a service whose store does not get on with %j is ready, and readiness names them", async (stuck, reason) => {
  const ledger = { check: async () => {} };
  const check = storeReadiness({ ledger: ledger as never, stuck: () => stuck });
  expect(await runChecks([check], timers)).toEqual({
    ready: true,
    checks: [{ name: "store", status: "ok", ...(reason !== undefined && { reason }) }],
  });
});
