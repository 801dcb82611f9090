import { sqliteFixture } from "./ledger-sqlite-fixture.ts";
import { searchSuite } from "./search-suite.ts";

searchSuite("SQLite", async () => sqliteFixture());
