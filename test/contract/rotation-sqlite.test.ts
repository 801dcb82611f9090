import { sqliteFixture } from "./ledger-sqlite-fixture.ts";
import { rotationSuite } from "./rotation-suite.ts";

rotationSuite("SQLite", async () => {
  const fixture = sqliteFixture();
  return { ...fixture, keyPath: fixture.store.keyPath };
});
