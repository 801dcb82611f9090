import { erasureSuite } from "./erasure-suite.ts";
import { sqliteFixture } from "./ledger-sqlite-fixture.ts";

erasureSuite("SQLite", async () => sqliteFixture());
