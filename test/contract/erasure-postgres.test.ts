import { afterAll, beforeAll } from "vitest";
import { type PostgresServer, startPostgres } from "../harness/postgres.ts";
import { erasureFixture } from "./erasure-postgres-fixture.ts";
import { erasureSuite } from "./erasure-suite.ts";
import { postgresFixture } from "./ledger-postgres-fixture.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
}, 60_000);
afterAll(() => server.stop());

erasureSuite("PostgreSQL", async () => erasureFixture(await postgresFixture(server)));
