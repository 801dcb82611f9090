import { afterAll, beforeAll } from "vitest";
import { type PostgresServer, startPostgres } from "../harness/postgres.ts";
import { postgresPlace } from "./ledger-postgres-place.ts";
import { sharedPlace } from "./shared-postgres-place.ts";
import { describeShared } from "./shared-suite.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
}, 60_000);
afterAll(() => server.stop());

describeShared("PostgreSQL", async () => sharedPlace(await postgresPlace(server)));
