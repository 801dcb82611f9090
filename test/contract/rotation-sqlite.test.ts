import { sqliteFixture } from "./ledger-sqlite-fixture.ts";
import { rotationSuite } from "./rotation-suite.ts";

rotationSuite("SQLite", async () => sqliteFixture());
