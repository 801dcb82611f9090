import { afterAll, beforeAll } from "vitest";
import { type PostgresServer, startPostgres } from "../harness/postgres.ts";
import { postgresFixture } from "./ledger-postgres-fixture.ts";
import { sharedFixture } from "./shared-postgres-fixture.ts";
import { describeShared } from "./shared-suite.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
}, 60_000);
afterAll(() => server.stop());

describeShared("PostgreSQL", async () => sharedFixture(await postgresFixture(server)));
