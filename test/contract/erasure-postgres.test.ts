import { postgresOfFile } from "../harness/postgres-of-file.ts";
import { erasureFixture } from "./erasure-postgres-fixture.ts";
import { erasureSuite } from "./erasure-suite.ts";
import { postgresFixture } from "./ledger-postgres-fixture.ts";

const server = postgresOfFile();

erasureSuite("PostgreSQL", async () => erasureFixture(await postgresFixture(server)));
