import { afterAll, beforeAll } from "vitest";
import { type PostgresServer, startPostgres } from "../harness/postgres.ts";
import { postgresPlace } from "./ledger-postgres-place.ts";
import { searchPlace } from "./search-postgres-place.ts";
import { searchSuite } from "./search-suite.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
}, 60_000);
afterAll(() => server.stop());

searchSuite("PostgreSQL", async () => searchPlace(await postgresPlace(server)));
