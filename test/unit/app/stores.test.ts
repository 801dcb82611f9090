import { expect, test } from "vitest";
import { storeReadiness } from "../../../src/app/stores.ts";
import { runChecks } from "../../../src/ops/readiness.ts";

const timers = { after: () => () => {} };

test.each<[stuck: string[], reason: string | undefined]>([
  [[], undefined],
  [["tenant-a"], "store operations fail for tenant-a"],
  [["a", "b", "c"], "store operations fail for a, b, c"],
  [["a", "b", "c", "d", "e"], "store operations fail for a, b, c, and 2 more"],
])("a service whose store operations fail for %j is ready, and readiness names them", async (stuck, reason) => {
  const ledger = { check: async () => {} };
  const check = storeReadiness({ ledger: ledger as never, stuck: () => stuck });
  expect(await runChecks([check], timers)).toEqual({
    ready: true,
    checks: [{ name: "store", status: "ok", ...(reason !== undefined && { reason }) }],
  });
});
