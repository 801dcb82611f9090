import { sqliteErasureFixture } from "./erasure-sqlite-fixture.ts";
import { erasureSuite } from "./erasure-suite.ts";

erasureSuite("SQLite", async () => sqliteErasureFixture());
