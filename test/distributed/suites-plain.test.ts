/** The same PostgreSQL without the extension: what fails here is not the extension's doing. */
import { afterAll, beforeAll } from "vitest";
import { postgresFixture } from "../contract/ledger-postgres-fixture.ts";
import { startPlainPostgres } from "../harness/citus.ts";
import type { PostgresServer } from "../harness/postgres.ts";
import { storeSuites } from "./suites.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPlainPostgres();
});
afterAll(() => server.stop());

storeSuites("plain PostgreSQL", () => postgresFixture(server));
