import { sqlitePlace } from "./ledger-sqlite-place.ts";
import { rotationSuite } from "./rotation-suite.ts";

rotationSuite("SQLite", async () => {
  const place = sqlitePlace();
  return { ...place, keyPath: place.store.keyPath };
});
