import { sqliteFixture } from "./ledger-sqlite-fixture.ts";
import { describeShared } from "./shared-suite.ts";

describeShared("SQLite", async () => sqliteFixture());
