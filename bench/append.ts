/**
 * Cost of a durable append by the number of tenants that write concurrently: records a second and per commit,
 * latencies, and processor time of this process and of the database. Calls the ledger directly: no HTTP, no load
 * generator.
 *
 * `node bench/append.ts [--store sqlite|postgres] [--tenants 1,20,100,1] [--replicas 1,2] [--callers 128] [--seconds 3]
 * [--sizes 1000,1000000]`. Each number of replicas has its own store; each replica has a thread. With `--sizes`, each
 * row is measured when the store has reached that many records. Needs Linux's /proc for the database's time. For logs
 * of many idle tenants: `--tenants 10000 --callers 1`.
 */
import { randomFillSync } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { systemClock } from "../src/base/clock.ts";
import { newRecordId, parsePrincipalId, parseRequestId, parseTenantId, type RandomFill } from "../src/base/ids.ts";
import type { NewRecord } from "../src/ledger/ports/record.ts";
import { openPostgresStores } from "../src/stores/postgres/open-ledger.ts";
import { migratePostgres } from "../src/stores/postgres/schema.ts";
import { openSqliteStores } from "../src/stores/sqlite/open-ledger.ts";
import { targetOf } from "../test/contract/ledger-postgres-fixture.ts";
import { startPostgres } from "../test/harness/postgres.ts";
import { cpuMicros } from "./child.ts";
import { numbersOf, printTable, quantiles, readOptions, temporaryFolder } from "./run.ts";

const random: RandomFill = (bytes) => randomFillSync(bytes);

interface ReplicaData {
  /** Path of the embedded store; its key is beside it. */
  readonly path: string;
  /** Database of the store in PostgreSQL. */
  readonly databaseUrl: string | undefined;
}

interface Load {
  readonly callers: readonly number[];
  readonly tenants: number;
  readonly durationMs: number;
}

interface Loaded {
  readonly latenciesMs: readonly number[];
  readonly commits: number;
}

function good<Value>(value: Value | undefined): Value {
  if (value === undefined) throw new Error("malformed value");
  return value;
}

/** A decision of usual size: 1.1 kB as a record. */
function makeRecord(tenant: number): NewRecord {
  return {
    kind: "decision",
    recordId: newRecordId(systemClock, random),
    tenantId: good(parseTenantId(`tenant-${tenant}`)),
    requestId: good(parseRequestId("0198d2a0-1111-7222-8333-444444444444")),
    caller: {
      principal_id: good(parsePrincipalId("principal-1")),
      subject: "service-account-1",
      auth_source: "bearer_token",
    },
    route: "/v1/sdk/protection-plan",
    request: {
      operation: "protect",
      workload: { application: "billing", environment: "production", component: "api" },
      resource: { kind: "invoice", id: "invoice-123", mime_type: "application/pdf" },
      purpose: "monthly run",
      labels: ["pii", "finance", "eu"],
      attributes: { residency: "eu", tier: "gold", team: "billing" },
      content_digest: `sha256:${"a".repeat(64)}`,
      content_size_bytes: 12_345,
    },
    outcome: {
      allow: true,
      policy_revision: `sha256:${"b".repeat(64)}`,
      reasons: ["platform.allow", "tenant.allow"],
      handling_mode: "local_embedded_enforcement",
      artifact_profile: "tdf",
      bind_policy_to: ["artifact_digest", "content_digest"],
      required_actions: ["protect_locally"],
    },
    policyRevision: `sha256:${"b".repeat(64)}`,
  };
}

/** A replica, in its thread, with its callers. Each appends, waits for the answer, and appends to another log. */
async function serveReplica(port: NonNullable<typeof parentPort>): Promise<void> {
  const { path, databaseUrl } = workerData as ReplicaData;
  let commits = 0;
  const committed = () => {
    commits += 1;
  };
  const opening = { originPrefix: "bench.example/logs", clock: systemClock, random, events: { committed } };
  const keyPath = `${path}.key`;
  const ledger =
    databaseUrl === undefined
      ? (await openSqliteStores({ ...opening, path, anchorPath: `${path}.anchor`, keyPath })).ledger
      : (await openPostgresStores({ ...opening, target: targetOf(databaseUrl), keyPath })).ledger;
  const load = async ({ callers, tenants, durationMs }: Load): Promise<Loaded> => {
    const latenciesMs: number[] = [];
    const commitsBefore = commits;
    const end = performance.now() + durationMs;
    const call = async (caller: number) => {
      let turn = caller;
      for (let began = performance.now(); began < end; began = performance.now()) {
        // Nearly random, and every tenant equally often.
        turn = (turn * 7_919 + 13) % 1_000_003;
        await ledger.append(makeRecord(turn % tenants));
        latenciesMs.push(performance.now() - began);
      }
    };
    await Promise.all(callers.map(call));
    return { latenciesMs, commits: commits - commitsBefore };
  };
  port.on("message", async (message: Load | "close") => {
    if (message !== "close") return port.postMessage(await load(message));
    await ledger.close();
    port.close();
  });
  port.postMessage("open");
}

async function measureAll(): Promise<void> {
  const values = readOptions({
    store: "sqlite",
    tenants: "1,20,100,1",
    replicas: "1",
    callers: 128,
    seconds: 3,
    sizes: "0",
  });
  const measureMs = values.seconds * 1_000;
  using folder = temporaryFolder("append");
  const server =
    values.store === "postgres" ? await startPostgres({ settings: { shared_buffers: "128MB" } }) : undefined;

  const startReplicas = async (replicas: number): Promise<readonly Worker[]> => {
    const databaseUrl = await server?.createDatabase();
    if (databaseUrl !== undefined) await migratePostgres({ target: targetOf(databaseUrl), random });
    const data: ReplicaData = { path: join(folder.path, `ledger-${replicas}.db`), databaseUrl };
    const workers: Worker[] = [];
    for (let replica = 0; replica < replicas; replica++) {
      const worker = new Worker(new URL(import.meta.url), { workerData: data });
      // The first replica creates the key.
      await once(worker, "message");
      workers.push(worker);
    }
    return workers;
  };

  /** Distributes the callers over the replicas. */
  const load = async (replicas: readonly Worker[], tenants: number, durationMs: number): Promise<Loaded> => {
    const all = Array.from({ length: values.callers }, (_, caller) => caller);
    const results = await Promise.all(
      replicas.map(async (replica, index) => {
        const callers = all.filter((caller) => caller % replicas.length === index);
        replica.postMessage({ callers, tenants, durationMs } satisfies Load);
        return (await once(replica, "message"))[0] as Loaded;
      }),
    );
    return {
      latenciesMs: results.flatMap(({ latenciesMs }) => latenciesMs),
      commits: results.reduce((sum, { commits }) => sum + commits, 0),
    };
  };

  /** Processor time of the server and all its processes so far, in microseconds. */
  const databaseMicros = (): number => {
    if (server === undefined) return 0;
    const [pid] = readFileSync(join(server.dataDirectory, "postmaster.pid"), "utf8").split("\n");
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ");
    return children.reduce((sum, child) => sum + microsOf(Number(child)), 0);
  };

  const measure = async (replicas: readonly Worker[], tenants: number, size: number, records: number) => {
    let recordsBefore = records;
    do {
      recordsBefore += (await load(replicas, tenants, measureMs / 2)).latenciesMs.length;
    } while (recordsBefore < size);
    const before = { own: process.cpuUsage(), database: databaseMicros(), ms: performance.now() };
    const { latenciesMs, commits } = await load(replicas, tenants, measureMs);
    const appended = latenciesMs.length;
    const own = process.cpuUsage(before.own);
    const { p50Ms, p99Ms } = quantiles(latenciesMs);
    return {
      replicas: replicas.length,
      tenants,
      "records before": recordsBefore,
      "records/s": Math.round((appended * 1_000) / (performance.now() - before.ms)),
      "p50 ms": p50Ms.toFixed(2),
      "p99 ms": p99Ms.toFixed(2),
      "records a commit": (appended / commits).toFixed(1),
      "µs here": Math.round((own.user + own.system) / appended),
      "µs of the database": Math.round((databaseMicros() - before.database) / appended),
      "RSS MiB": Math.round(process.memoryUsage.rss() / 1024 ** 2),
      appended,
    };
  };

  try {
    const rows = [];
    for (const count of numbersOf(values.replicas)) {
      const replicas = await startReplicas(count);
      let records = 0;
      for (const tenants of numbersOf(values.tenants))
        for (const size of numbersOf(values.sizes)) {
          const { appended, ...row } = await measure(replicas, tenants, size, records);
          records = row["records before"] + appended;
          rows.push(row);
        }
      for (const replica of replicas) {
        replica.postMessage("close");
        await once(replica, "exit");
      }
    }
    printTable(rows);
  } finally {
    await server?.stop();
  }
}

/** 0 for a process that has ended meanwhile, such as an autovacuum worker. */
function microsOf(pid: number): number {
  try {
    return cpuMicros(pid);
  } catch {
    return 0;
  }
}

if (isMainThread) await measureAll();
else if (parentPort !== null) await serveReplica(parentPort);
