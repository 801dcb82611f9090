/** The suites of every store, on a coordinator and two workers. */
import { afterAll, beforeAll } from "vitest";
import { postgresPlace } from "../contract/ledger-postgres-place.ts";
import { type CitusCluster, startCitus } from "../harness/citus.ts";
import { storeSuites } from "./suites.ts";

let cluster: CitusCluster;
beforeAll(async () => {
  cluster = await startCitus();
});
afterAll(() => cluster.stop());

storeSuites("Citus", () => postgresPlace(cluster.coordinator, { distributed: true }));
