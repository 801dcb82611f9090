import type { Clock } from "../../src/base/clock.ts";
import { openSqliteStores } from "../../src/stores/sqlite/open-ledger.ts";
import { seededRandom } from "./ledger-records.ts";
import { sqliteFixture } from "./ledger-sqlite-fixture.ts";
import { describeShared } from "./shared-suite.ts";

describeShared("SQLite", () => {
  const { store, query, remove } = sqliteFixture();
  const random = seededRandom();
  return {
    async open(clock: Clock) {
      const { ledger, shared } = await openSqliteStores({ ...store, originPrefix: "ledger.example", clock, random });
      return { shared, close: () => ledger.close() };
    },
    count: (what: "proofs" | "attempts") =>
      Number(query(`SELECT count(*) AS rows FROM ${what === "proofs" ? "proof_uses" : what}`)[0]?.rows),
    remove,
  };
});
