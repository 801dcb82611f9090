import { sqlitePlace } from "./ledger-sqlite-place.ts";
import { ledgerSuite } from "./ledger-suite.ts";

ledgerSuite("SQLite", async () => sqlitePlace());
