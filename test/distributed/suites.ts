/** Everything that a store must do, for places that are made somewhere else than on the development packages' server. */
import { erasurePlace } from "../contract/erasure-postgres-place.ts";
import { erasureSuite } from "../contract/erasure-suite.ts";
import type { PostgresPlace } from "../contract/ledger-postgres-place.ts";
import { ledgerSuite } from "../contract/ledger-suite.ts";
import { searchPlace } from "../contract/search-postgres-place.ts";
import { searchSuite } from "../contract/search-suite.ts";
import { sharedPlace } from "../contract/shared-postgres-place.ts";
import { describeShared } from "../contract/shared-suite.ts";

export function storeSuites(name: string, newPlace: () => Promise<PostgresPlace>): void {
  ledgerSuite(name, newPlace);
  describeShared(`${name}, shared`, async () => sharedPlace(await newPlace()));
  erasureSuite(`${name}, erasure`, async () => erasurePlace(await newPlace()));
  searchSuite(`${name}, search`, async () => searchPlace(await newPlace()));
}
