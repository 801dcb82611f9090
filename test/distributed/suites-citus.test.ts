/** The suites of every store, on a coordinator and two workers. */
import { erasureSuite } from "../contract/erasure-suite.ts";
import { postgresFixture } from "../contract/ledger-postgres-fixture.ts";
import { ledgerSuite } from "../contract/ledger-suite.ts";
import { registrationSuite } from "../contract/registration-suite.ts";
import { searchSuite } from "../contract/search-suite.ts";
import { describeShared } from "../contract/shared-suite.ts";
import { startCitus } from "../harness/citus.ts";
import { forFile } from "../harness/lifetimes.ts";

const cluster = await forFile(startCitus());

for (const suite of [ledgerSuite, describeShared, erasureSuite, registrationSuite, searchSuite])
  suite("Citus", () => postgresFixture(cluster.coordinator, { distributed: true }));
