/** The suites of every store, on a coordinator and two workers. */
import { afterAll, beforeAll } from "vitest";
import { postgresFixture } from "../contract/ledger-postgres-fixture.ts";
import { type CitusCluster, startCitus } from "../harness/citus.ts";
import { storeSuites } from "./suites.ts";

let cluster: CitusCluster;
beforeAll(async () => {
  cluster = await startCitus();
});
afterAll(() => cluster.stop());

storeSuites("Citus", () => postgresFixture(cluster.coordinator, { distributed: true }));
