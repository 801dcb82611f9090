import { afterAll, beforeAll } from "vitest";
import { type PostgresServer, startPostgres } from "../harness/postgres.ts";
import { erasurePlace } from "./erasure-postgres-place.ts";
import { erasureSuite } from "./erasure-suite.ts";
import { postgresPlace } from "./ledger-postgres-place.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
}, 60_000);
afterAll(() => server.stop());

erasureSuite("PostgreSQL", async () => erasurePlace(await postgresPlace(server)));
