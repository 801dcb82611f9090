import { expect, test } from "vitest";
import { requireSafeBlocks } from "../../../src/stores/files/connection.ts";
import { aheadError, isAhead } from "../../../src/stores/sql/store-checks.ts";
import { tenant } from "../../contract/ledger-records.ts";

const nowMs = Date.UTC(2026, 0, 2);
const head = (lastRecordedAtMs: number) => ({
  tenantId: tenant("alice"),
  origin: "logs.example/alice",
  size: 1,
  root: new Uint8Array(32),
  lastRecordedAtMs,
});

test.each([
  ["earlier", -1, true],
  ["within five minutes", 5 * 60_000, true],
  ["later than that", 5 * 60_000 + 1, false],
])("a start is refused or accepted if a log's newest record is %s", (_what, aheadMs, isTaken) => {
  expect(isAhead(head(nowMs + aheadMs), nowMs)).toBe(!isTaken);
});

test("a refused start names the time, and the command that accepts it", () => {
  expect(aheadError(head(nowMs + 300_001), nowMs).message).toMatch(
    /logs\.example\/alice .*2026-01-02T00:05:00\.001Z.*set the clock right.*`ledger clock accept`/,
  );
});

test.each([
  [512, false],
  [1024, false],
  [2048, false],
  [4096, true],
  [1024 * 1024, true],
])("a file system with blocks of %d bytes is accepted: %s", (bsize, isTaken) => {
  const statfs = (() => ({ bsize })) as unknown as Parameters<typeof requireSafeBlocks>[1];
  const check = () => requireSafeBlocks("/var/lib/svc/none/platform.db", statfs);
  if (isTaken) expect(check).not.toThrow();
  else expect(check).toThrow(`blocks of ${bsize} bytes`);
});
