/** Databases of one server, for what replicas share. */
import type { PostgresFixture } from "./ledger-postgres-fixture.ts";
import { seededRandom } from "./ledger-records.ts";
import type { SharedFixture } from "./shared-suite.ts";

export function sharedFixture({ openStores, query, remove }: PostgresFixture): SharedFixture {
  const random = seededRandom();
  return {
    async open(clock) {
      const { ledger, shared } = await openStores({ clock, random });
      return { shared, close: () => ledger.close() };
    },
    async count(what) {
      return Number((await query(`SELECT count(*) AS rows FROM ${what === "proofs" ? "proof_uses" : what}`))[0]?.rows);
    },
    remove,
  };
}
