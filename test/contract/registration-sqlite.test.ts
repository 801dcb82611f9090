import { sqliteErasureFixture } from "./erasure-sqlite-fixture.ts";
import { registrationSuite } from "./registration-suite.ts";

registrationSuite("SQLite", async () => sqliteErasureFixture());
