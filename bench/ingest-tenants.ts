/**
 * Evidence ingest on PostgreSQL, each answer with its full receipt: requests a second by number of tenants and of
 * replicas, beside raw multi-row inserts of as many rows a commit as there are callers, in the same run.
 */
import { randomFillSync } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { migratePostgres } from "../src/stores/postgres/schema/migrate.ts";
import { targetOf } from "../test/contract/ledger-postgres-fixture.ts";
import { type PostgresServer, startPostgres } from "../test/harness/postgres.ts";
import { benchCalls } from "./calls.ts";
import { type GatewayProcess, startGatewayProcess } from "./deployment.ts";
import { loadHttp1, type Measured } from "./load.ts";
import { measureRawPostgres } from "./raw-postgres.ts";
import { startTenants, type Tenants } from "./tenants.ts";

const callers = 128;
const tenantNumbers = [1, 10, 100];
const replicaNumbers = [1, 2];
const loadCore = 1;
const warmUpSeconds = 2;

/** @param seconds of each measurement */
export async function measureTenants(seconds: number): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "bench-ingest-"));
  const server = await startPostgres({ settings: { shared_buffers: "128MB" } });
  const tenants = await startTenants(Math.max(...tenantNumbers));
  try {
    const rows = [];
    for (const replicas of replicaNumbers) {
      const gateways = await startReplicas(server, directory, tenants, replicas);
      try {
        for (const number of tenantNumbers) {
          const tokens = tenants.ids.slice(0, number).map(tenants.tokenOf);
          await loadAll(gateways, tokens, directory, warmUpSeconds);
          const measured = await loadAll(gateways, tokens, directory, seconds);
          const raw = await measureRawPostgres(await server.createDatabase(), callers, seconds * 200, 200);
          rows.push(row(replicas, number, measured, raw));
        }
      } finally {
        for (const gateway of gateways) await gateway.stop();
      }
    }
    // biome-ignore lint/suspicious/noConsole: the table is what this program is for
    console.table(rows);
  } finally {
    await tenants.stop();
    await server.stop();
    rmSync(directory, { recursive: true, force: true });
  }
}

function row(replicas: number, tenants: number, measured: readonly Measured[], raw: number) {
  const perSecond = measured.reduce((sum, each) => sum + each.perSecond, 0);
  const slowest = (of: (measured: Measured) => number) => Math.max(...measured.map(of)).toFixed(1);
  return {
    replicas,
    tenants,
    "records/s": Math.round(perSecond),
    "p50 ms": slowest(({ p50Ms }) => p50Ms),
    "p99 ms": slowest(({ p99Ms }) => p99Ms),
    "raw rows/s": Math.round(raw),
    ratio: (perSecond / raw).toFixed(2),
  };
}

/** On a database of their own. */
async function startReplicas(server: PostgresServer, directory: string, { issuer }: Tenants, replicas: number) {
  const url = await server.createDatabase();
  await migratePostgres({ target: targetOf(url), random: (bytes) => randomFillSync(bytes) });
  const env = { SVC_STORE: url, SVC_LEDGER_KEY: join(directory, `ledger-${replicas}.key`) };
  const gateways: GatewayProcess[] = [];
  // The first makes the key.
  for (let place = 0; place < replicas; place++) {
    const logFile = join(directory, `gateway-${replicas}-${place}.log`);
    gateways.push(await startGatewayProcess({ issuer, dataDir: directory, logFile, env }));
  }
  return gateways;
}

/** Loads all gateways at once, with the callers shared out among them. */
function loadAll(
  gateways: readonly GatewayProcess[],
  tokens: readonly string[],
  directory: string,
  seconds: number,
): Promise<readonly Measured[]> {
  const call = benchCalls().find(({ name }) => name === "evidence");
  if (call?.json === undefined) throw new Error("there is no evidence call");
  const headers = { "content-type": "application/json" };
  const load = { headers, body: call.json, tokens, seconds, core: loadCore, directory };
  const connections = callers / gateways.length;
  return Promise.all(
    gateways.map(({ listening }) => loadHttp1({ ...load, url: listening.url + call.restPath, connections })),
  );
}
