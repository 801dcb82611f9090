import { expect, test } from "vitest";
import type { TenantId } from "../../src/base/ids.ts";
import { forFile } from "../harness/lifetimes.ts";
import { sharedPostgres } from "../harness/shared-postgres.ts";
import { postgresFixture } from "./ledger-postgres-fixture.ts";
import { recordKit, tenant } from "./ledger-records.ts";
import { searchSuite } from "./search-suite.ts";

const server = await forFile(sharedPostgres());

searchSuite("PostgreSQL", () => postgresFixture(server));

/** Rows that no search of the log needs. */
const others = 100_000;
const records = 300;

test("a search reads few rows, although the server has no statistics of a fast-growing log", async () => {
  const fixture = await postgresFixture(server);
  const { makeRecord, ...machine } = recordKit("statistics");
  for (const table of ["entries", "openings"])
    await fixture.query(`ALTER TABLE ${table} SET (autovacuum_enabled = off)`);
  const filled = await fixture.open(machine);
  await Promise.all(Array.from({ length: records }, () => filled.append(makeRecord(tenant("alice")))));
  await filled.close();
  await fixture.query(`
    INSERT INTO entries SELECT 'alice', 1000000 + n, 'other-' || n, '', '' FROM generate_series(1, ${others}) n;
    INSERT INTO openings SELECT 'alice', 'other-' || n, sha256('') FROM generate_series(1, ${others}) n`);
  const openingsRead = async () => {
    const [row] = await fixture.query(
      "SELECT seq_tup_read + idx_tup_fetch AS rows FROM pg_stat_user_tables WHERE relname = 'openings'",
    );
    return Number(row?.rows);
  };
  const before = await openingsRead();

  const ledger = await fixture.open(machine);
  const [log] = await ledger.published();
  const tenantId = log?.tenantId as TenantId;
  const query = { tenantId, terms: [{ field: "subject", value: "subject-1" }] as const, limit: records };
  expect((await ledger.search(query)).found).toHaveLength(records);
  await ledger.close();

  // The server counts what a connection read when the connection ends.
  await expect.poll(openingsRead).toBeGreaterThanOrEqual(before + records);
  expect((await openingsRead()) - before).toBeLessThan(others / 2);
});
