import { sqliteErasurePlace } from "./erasure-sqlite-place.ts";
import { erasureSuite } from "./erasure-suite.ts";

erasureSuite("SQLite", async () => sqliteErasurePlace());
