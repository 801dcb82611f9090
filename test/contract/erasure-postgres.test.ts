import { afterAll, beforeAll } from "vitest";
import { type SharedPostgres, sharedPostgres } from "../harness/shared-postgres.ts";
import { erasureFixture } from "./erasure-postgres-fixture.ts";
import { erasureSuite } from "./erasure-suite.ts";
import { postgresFixture } from "./ledger-postgres-fixture.ts";

let server: SharedPostgres;
beforeAll(async () => {
  server = await sharedPostgres();
}, 60_000);
afterAll(() => server.stop());

erasureSuite("PostgreSQL", async () => erasureFixture(await postgresFixture(server)));
