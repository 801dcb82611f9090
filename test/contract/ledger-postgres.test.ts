import { afterAll, beforeAll } from "vitest";
import { type PostgresServer, startPostgres } from "../harness/postgres.ts";
import { postgresFixture } from "./ledger-postgres-fixture.ts";
import { ledgerSuite } from "./ledger-suite.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
}, 60_000);
afterAll(() => server.stop());

ledgerSuite("PostgreSQL", () => postgresFixture(server));
