import { sqliteFixture } from "./ledger-sqlite-fixture.ts";
import { ledgerSuite } from "./ledger-suite.ts";

ledgerSuite("SQLite", async () => sqliteFixture());
