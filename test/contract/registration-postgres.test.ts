import { afterAll, beforeAll } from "vitest";
import { type PostgresServer, startPostgres } from "../harness/postgres.ts";
import { registrationFixture } from "./erasure-postgres-fixture.ts";
import { postgresFixture } from "./ledger-postgres-fixture.ts";
import { registrationSuite } from "./registration-suite.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
}, 60_000);
afterAll(() => server.stop());

registrationSuite("PostgreSQL", async () => registrationFixture(await postgresFixture(server)));
