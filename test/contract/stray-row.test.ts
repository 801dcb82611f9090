/** A row that stands behind a log's head, as after a restore that mixed two copies. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type PostgresServer, startPostgres } from "../harness/postgres.ts";
import { postgresPlace } from "./ledger-postgres-place.ts";
import { manualClock, recordMaker, seededRandom, tenant } from "./ledger-records.ts";
import { sqlitePlace } from "./ledger-sqlite-place.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
}, 60_000);
afterAll(() => server.stop());

test.each([
  ["SQLite", async () => sqlitePlace()],
  ["PostgreSQL", async () => postgresPlace(server)],
] as const)("on %s the log is not continued, and others are", async (_name, makePlace) => {
  const [clock, random] = [manualClock(), seededRandom()];
  const makeRecord = recordMaker(clock, random);
  const place = await makePlace();
  const ledger = await place.open({ clock, random });
  try {
    await ledger.append(makeRecord(tenant("alice")));
    await place.query(
      `INSERT INTO entries (tenant_id, leaf_index, record_id, leaf, sealed)
       SELECT tenant_id, 2, 'stray', leaf, sealed FROM entries WHERE leaf_index = 1`,
    );
    await expect(ledger.append(makeRecord(tenant("alice")))).rejects.toMatchObject({
      reason: "store_unavailable",
      message: "The log cannot be continued.",
      details: { cause: { message: expect.stringContaining("behind its head") } },
    });
    await ledger.append(makeRecord(tenant("bob")));
  } finally {
    await ledger.close();
    await place.remove();
  }
});
