/** A replica of `append-tenants.ts` in a thread of its own, as replicas have event loops of their own, with its callers. */
import { randomFillSync } from "node:crypto";
import { parentPort, workerData } from "node:worker_threads";
import { systemClock } from "../src/base/clock.ts";
import type { RandomFill } from "../src/base/ids.ts";
import { openPostgresStores } from "../src/stores/postgres/open-ledger.ts";
import { openSqliteLedger } from "../src/stores/sqlite/open-ledger.ts";
import { targetOf } from "../test/contract/ledger-postgres-fixture.ts";
import { makeRecord } from "./raw-sqlite.ts";

export interface ReplicaData {
  /** Of the embedded store; the key stands beside it. */
  readonly path: string;
  /** Where the store is in PostgreSQL. */
  readonly databaseUrl: string | undefined;
}

/** One load. */
export interface ReplicaLoad {
  readonly callers: readonly number[];
  readonly tenants: number;
  readonly durationMs: number;
}

/** What a load came to. */
export interface ReplicaLoadResult {
  readonly latenciesMs: readonly number[];
  readonly commits: number;
}

const { path, databaseUrl } = workerData as ReplicaData;
const random: RandomFill = (bytes) => randomFillSync(bytes);
let commits = 0;
const opening = {
  originPrefix: "bench.example/logs",
  clock: systemClock,
  random,
  commits: {
    elapsedMs: () => performance.now(),
    committed: () => {
      commits += 1;
    },
  },
};
const keyPath = `${path}.key`;
const ledger =
  databaseUrl === undefined
    ? await openSqliteLedger({ ...opening, path, anchorPath: `${path}.anchor`, keyPath })
    : (await openPostgresStores({ ...opening, target: targetOf(databaseUrl), keyPath })).ledger;

/** Every caller appends, waits for the answer, and appends to another log. */
async function load({ callers, tenants, durationMs }: ReplicaLoad): Promise<ReplicaLoadResult> {
  const latenciesMs: number[] = [];
  const commitsBefore = commits;
  const end = performance.now() + durationMs;
  const call = async (caller: number) => {
    let turn = caller;
    for (let began = performance.now(); began < end; began = performance.now()) {
      // As good as random, and each tenant as often as any.
      turn = (turn * 7_919 + 13) % 1_000_003;
      await ledger.append(makeRecord(turn % tenants));
      latenciesMs.push(performance.now() - began);
    }
  };
  await Promise.all(callers.map(call));
  return { latenciesMs, commits: commits - commitsBefore };
}

parentPort?.on("message", async (message: ReplicaLoad | "close") => {
  if (message !== "close") return parentPort?.postMessage(await load(message));
  await ledger.close();
  parentPort?.close();
});
parentPort?.postMessage("open");
