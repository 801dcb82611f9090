/** Everything that a store must do, for places that are made somewhere else than on the development packages' server. */
import { erasureFixture, registrationFixture } from "../contract/erasure-postgres-fixture.ts";
import { erasureSuite } from "../contract/erasure-suite.ts";
import type { PostgresFixture } from "../contract/ledger-postgres-fixture.ts";
import { ledgerSuite } from "../contract/ledger-suite.ts";
import { registrationSuite } from "../contract/registration-suite.ts";
import { searchFixture } from "../contract/search-postgres-fixture.ts";
import { searchSuite } from "../contract/search-suite.ts";
import { sharedFixture } from "../contract/shared-postgres-fixture.ts";
import { describeShared } from "../contract/shared-suite.ts";

export function storeSuites(name: string, newFixture: () => Promise<PostgresFixture>): void {
  ledgerSuite(name, newFixture);
  describeShared(`${name}, shared`, async () => sharedFixture(await newFixture()));
  erasureSuite(`${name}, erasure`, async () => erasureFixture(await newFixture()));
  registrationSuite(`${name}, registrations`, async () => registrationFixture(await newFixture()));
  searchSuite(`${name}, search`, async () => searchFixture(await newFixture()));
}
