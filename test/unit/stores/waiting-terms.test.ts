/** What a process keeps of the leaves that wait for search indexes. */
import { expect, test } from "vitest";
import type { TenantId } from "../../../src/base/ids.ts";
import { WaitingTerms } from "../../../src/stores/sql/log-tools.ts";

const root = new Uint8Array(32) as never;

/** How many logs it still knows, of so many whose terms take so many bytes each. */
function known(logs: number, bytes: number): number {
  const terms = new WaitingTerms();
  const tenants = Array.from({ length: logs }, (_, log) => `tenant-${log}` as TenantId);
  for (const tenantId of tenants)
    terms.put({ tenantId, root }, { generation: 1, first: 0, packed: new Uint8Array(bytes) });
  return tenants.filter((tenantId) => terms.of({ tenantId, root }) !== undefined).length;
}

test("the cache keeps few logs of many terms, and many of few", () => {
  expect(known(200, 210_000)).toBe(78);
  expect(known(1_600, 6_000)).toBe(1_600);
  expect(known(5_000, 0)).toBe(4_096);
});
