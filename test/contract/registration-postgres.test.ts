import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { PostgresConnection } from "../../src/stores/postgres/connection/connection.ts";
import { type PostgresServer, startPostgres } from "../harness/postgres.ts";
import { registrationFixture } from "./erasure-postgres-fixture.ts";
import { postgresFixture } from "./ledger-postgres-fixture.ts";
import { manualClock, recordMaker, seededRandom, tenant } from "./ledger-records.ts";
import { registrationSuite } from "./registration-suite.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
}, 60_000);
afterAll(() => server.stop());

registrationSuite("PostgreSQL", async () => registrationFixture(await postgresFixture(server)));

test("no answer of the server has more than a page of registrations, and one artifact's", async () => {
  const fixture = await postgresFixture(server);
  const [clock, random, alice] = [manualClock(), seededRandom(), tenant("alice")];
  const makeRecord = recordMaker(clock, random);
  const ledger = await fixture.open({ clock, random });
  const digests = Array.from({ length: 30 }, (_, position) => `sha256:${`${position}`.padStart(64, "0")}`);
  const register = (label: string) =>
    Promise.all(
      digests.map((artifact_digest) => {
        const request = { artifact_digest, labels: [label], attributes: { padding: "x".repeat(400_000) } };
        return ledger.append(
          makeRecord(alice, { kind: "registration", request, outcome: { accepted: true, citation: "none" } }),
        );
      }),
    );
  const query = vi.spyOn(PostgresConnection.prototype, "query");
  try {
    await register("a");
    await register("b");
    await fixture.query("DELETE FROM registered_artifacts");
    await fixture.query("UPDATE log_heads SET registered_to = 0");
    const found = await ledger.registrations(alice, digests.slice(0, 2));
    expect(found).toMatchObject([{ length: 2 }, { length: 2 }]);
    const sizes = query.mock.settledResults.map((result) =>
      result.type !== "fulfilled"
        ? 0
        : result.value.rows
            .flatMap((row) => Object.values(row))
            .reduce((sum: number, value) => sum + (value instanceof Uint8Array ? value.length : 0), 0),
    );
    // A page of 4 MiB, and the artifact or record that makes it full.
    const largest = Math.max(...sizes);
    expect(largest).toBeGreaterThan(4_000_000);
    expect(largest).toBeLessThan(4 * 1024 * 1024 + 2 * 450_000);
  } finally {
    query.mockRestore();
    await ledger.close();
    await fixture.remove();
  }
});
