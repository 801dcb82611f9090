import { afterAll, beforeAll } from "vitest";
import { type PostgresServer, startPostgres } from "../harness/postgres.ts";
import { postgresFixture } from "./ledger-postgres-fixture.ts";
import { searchFixture } from "./search-postgres-fixture.ts";
import { searchSuite } from "./search-suite.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
}, 60_000);
afterAll(() => server.stop());

searchSuite("PostgreSQL", async () => searchFixture(await postgresFixture(server)));
