import { postgresOfFile } from "../harness/postgres-of-file.ts";
import { postgresFixture } from "./ledger-postgres-fixture.ts";
import { searchFixture } from "./search-postgres-fixture.ts";
import { searchSuite } from "./search-suite.ts";

const server = postgresOfFile();

searchSuite("PostgreSQL", async () => searchFixture(await postgresFixture(server)));
