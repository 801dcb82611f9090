import type { Clock } from "../../src/base/clock.ts";
import {
  openSharedSqliteStores,
  openSqliteStores,
  type SharedSqliteStore,
  type SqliteStores,
} from "../../src/stores/sqlite/open-ledger.ts";
import { seededRandom } from "./ledger-records.ts";
import { sqliteFixture } from "./ledger-sqlite-fixture.ts";
import { describeShared } from "./shared-suite.ts";

type Owner = Awaited<ReturnType<typeof openSqliteStores>>;

function fixtureOf(
  open: (openOwner: () => Promise<Owner>, clock: Clock) => Promise<SqliteStores>,
  end = async () => {},
) {
  const { store, query, remove } = sqliteFixture();
  const random = seededRandom();
  return {
    async open(clock: Clock) {
      const openOwner = () => openSqliteStores({ ...store, originPrefix: "ledger.example", clock, random });
      const { ledger, shared } = await open(openOwner, clock);
      return { shared, close: () => ledger.close() };
    },
    count: (what: "proofs" | "attempts") =>
      Number(query(`SELECT count(*) AS rows FROM ${what === "proofs" ? "proof_uses" : what}`)[0]?.rows),
    async remove() {
      await end();
      await remove();
    },
  };
}

describeShared("SQLite", () => fixtureOf((openOwner) => openOwner()));

describeShared("SQLite that another thread has opened", () => {
  const random = seededRandom();
  let owner: Promise<Owner> | undefined;
  return fixtureOf(
    async (openOwner, clock) => {
      owner ??= openOwner();
      const { share } = await owner;
      return openSharedSqliteStores(share().message as SharedSqliteStore, { clock, random });
    },
    async () => (await owner)?.ledger.close(),
  );
});
