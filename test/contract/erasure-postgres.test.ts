import { forFile } from "../harness/lifetimes.ts";
import { sharedPostgres } from "../harness/shared-postgres.ts";
import { erasureSuite } from "./erasure-suite.ts";
import { postgresFixture } from "./ledger-postgres-fixture.ts";

const server = await forFile(sharedPostgres());

erasureSuite("PostgreSQL", () => postgresFixture(server));
