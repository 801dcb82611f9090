import { postgresOfFile } from "../harness/postgres-of-file.ts";
import { erasureSuite } from "./erasure-suite.ts";
import { postgresFixture } from "./ledger-postgres-fixture.ts";

const server = postgresOfFile();

erasureSuite("PostgreSQL", () => postgresFixture(server));
