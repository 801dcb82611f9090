import { guestFixture, sqliteFixture } from "./ledger-sqlite-fixture.ts";
import { ledgerSuite } from "./ledger-suite.ts";

ledgerSuite("SQLite", async () => sqliteFixture());
ledgerSuite("SQLite that another thread has opened", async () => guestFixture());
