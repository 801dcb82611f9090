import { afterAll, beforeAll } from "vitest";
import { type SharedPostgres, sharedPostgres } from "../harness/shared-postgres.ts";
import { postgresFixture } from "./ledger-postgres-fixture.ts";
import { ledgerSuite } from "./ledger-suite.ts";

let server: SharedPostgres;
beforeAll(async () => {
  server = await sharedPostgres();
}, 60_000);
afterAll(() => server.stop());

ledgerSuite("PostgreSQL", () => postgresFixture(server));
