import { postgresOfFile } from "../harness/postgres-of-file.ts";
import { postgresFixture } from "./ledger-postgres-fixture.ts";
import { ledgerSuite } from "./ledger-suite.ts";

const server = postgresOfFile();

ledgerSuite("PostgreSQL", () => postgresFixture(server));
