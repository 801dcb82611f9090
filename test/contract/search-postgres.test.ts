import { afterAll, beforeAll } from "vitest";
import { type SharedPostgres, sharedPostgres } from "../harness/shared-postgres.ts";
import { postgresFixture } from "./ledger-postgres-fixture.ts";
import { searchFixture } from "./search-postgres-fixture.ts";
import { searchSuite } from "./search-suite.ts";

let server: SharedPostgres;
beforeAll(async () => {
  server = await sharedPostgres();
}, 60_000);
afterAll(() => server.stop());

searchSuite("PostgreSQL", async () => searchFixture(await postgresFixture(server)));
