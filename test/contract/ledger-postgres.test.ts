import { forFile } from "../harness/lifetimes.ts";
import { sharedPostgres } from "../harness/shared-postgres.ts";
import { postgresFixture } from "./ledger-postgres-fixture.ts";
import { ledgerSuite } from "./ledger-suite.ts";

const server = await forFile(sharedPostgres());

ledgerSuite("PostgreSQL", () => postgresFixture(server));
