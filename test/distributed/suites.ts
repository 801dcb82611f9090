/** Everything that a store must do, for places that are made somewhere else than on the development packages' server. */
import { erasureSuite } from "../contract/erasure-suite.ts";
import type { PostgresFixture } from "../contract/ledger-postgres-fixture.ts";
import { ledgerSuite } from "../contract/ledger-suite.ts";
import { registrationSuite } from "../contract/registration-suite.ts";
import { searchSuite } from "../contract/search-suite.ts";
import { describeShared } from "../contract/shared-suite.ts";

export function storeSuites(name: string, newFixture: () => Promise<PostgresFixture>): void {
  ledgerSuite(name, newFixture);
  describeShared(`${name}, shared`, newFixture);
  erasureSuite(`${name}, erasure`, newFixture);
  registrationSuite(`${name}, registrations`, newFixture);
  searchSuite(`${name}, search`, newFixture);
}
