/**
 * Cost of an item in bulk: processor time of all the gateway's threads for each item of calls of 10, 100 and 1,000
 * items and of a stream, beside the single route with many concurrent callers; decisions and evidence, SQLite and
 * PostgreSQL, in turn, so compare the ratios. PostgreSQL's own processes are not counted. `node bench/bulk.ts
 * [--seconds 2] [--rounds 3] [--callers 64]`
 *
 * With `--beside`: effect on another tenant, on PostgreSQL, while one keeps 40 calls of 1,000 events in flight, each
 * sent again as soon as it is answered or refused: the other tenant's errors and latencies beside those without load,
 * and whether every call was answered and the gateway kept running. Exits with 1 if an aim is missed. `node
 * bench/bulk.ts --beside [--seconds 60] [--per-second 50]`
 */
import { randomFillSync, randomUUID } from "node:crypto";
import http from "node:http";
import { join } from "node:path";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { BulkStreamService } from "../gen/platform/bulk/v1/streams_pb.ts";
import { EvidenceEventType } from "../gen/platform/sdk/v1/common_pb.ts";
import { migratePostgres } from "../src/stores/postgres/schema.ts";
import { targetOf } from "../test/contract/ledger-postgres-fixture.ts";
import { startPostgres } from "../test/harness/postgres.ts";
import { benchCall } from "./calls.ts";
import { type GatewayProcess, startGatewayProcess } from "./deployment.ts";
import { limitMs, seenOf, watch } from "./load.ts";
import { measureInTurn, median, printTable, type Rounds, readOptions, temporaryFolder } from "./run.ts";
import { startTenants } from "./tenants.ts";

const options = readOptions({ seconds: "", rounds: 3, callers: 64, beside: false, "per-second": 50 });
const seconds = Number(options.seconds || (options.beside ? 60 : 2));
/** Limited by the size of a tenant's record queue. */
const bulkCallers = 2;
/** Concurrent calls of the loud tenant. */
const besideCallers = 40;
const hangingMs = 30_000;

const agent = new http.Agent({ keepAlive: true, maxSockets: 256 });
const plan = benchCall("protection-plan");
const evidence = benchCall("evidence");
const event: unknown = JSON.parse(evidence.json.toString());
const headersOf = (token: string) => ({ authorization: `Bearer ${token}`, "content-type": "application/json" });
const copies = <Item>(count: number, make: () => Item) => Array.from({ length: count }, make);
/** Body of a call with `count` events, each with a unique key. */
const eventsText = (count: number) =>
  JSON.stringify({ items: copies(count, () => ({ idempotency_key: randomUUID(), event })) });

/** Resolves with the status of the answer, or with the reason why there is none. */
function post(url: string, token: string, body: string | Buffer): Promise<string> {
  return new Promise((resolve) => {
    const sending = { method: "POST", agent, headers: headersOf(token), timeout: hangingMs };
    const request = http.request(url, sending, (response) => {
      response.resume();
      response.once("end", () => resolve(String(response.statusCode)));
      response.once("error", ({ message }) => resolve(message));
    });
    request.once("timeout", () => request.destroy(new Error("hangs")));
    request.once("error", ({ message }) => resolve(message));
    request.end(body);
  });
}

/**
 * Makes calls one after the other on each of several connections for `forSeconds`. Resolves with the number of calls by
 * outcome.
 */
async function load(callers: number, forSeconds: number, call: () => Promise<string>) {
  const ended = new Map<string, number>();
  const endsAtMs = performance.now() + forSeconds * 1_000;
  const caller = async () => {
    while (performance.now() < endsAtMs) {
      const how = await call();
      ended.set(how, (ended.get(how) ?? 0) + 1);
    }
  };
  await Promise.all(copies(callers, caller));
  // The server may close idle connections before the next load.
  agent.destroy();
  return ended as ReadonlyMap<string, number>;
}

/** Sends items for the given time; resolves with their number. */
type Run = (url: string, token: string, forSeconds: number) => Promise<number>;

function calls(callers: number, size: number, path: string, text: () => string | Buffer): Run {
  return async (url, token, forSeconds) => {
    const ended = await load(callers, forSeconds, () => post(url + path, token, text()));
    const { 200: answered = 0, ...others } = Object.fromEntries(ended);
    if (Object.keys(others).length > 0) throw new Error(`${path} answered ${JSON.stringify(others)}`);
    return answered * size;
  };
}

const stream: Run = async (url, token, forSeconds) => {
  const sessionManager = new Http2SessionManager(url);
  const client = createClient(BulkStreamService, createGrpcTransport({ baseUrl: url, sessionManager }));
  const endsAtMs = performance.now() + forSeconds * 1_000;
  type Init = Parameters<typeof client.streamEvents>[0] extends AsyncIterable<infer Item> ? Item : never;
  const event = {
    eventType: EvidenceEventType.PROTECT,
    workload: { application: "payroll-export", environment: "production", component: "nightly-writer" },
    resource: { kind: "customer-record", id: "cust-8841", mimeType: "application/pdf" },
    purpose: "quarterly-audit",
    labels: ["confidential"],
    attributes: { region: "eu" },
  };
  async function* items(): AsyncGenerator<Init> {
    for (let sequence = 0n; performance.now() < endsAtMs; sequence++)
      yield { sequence, item: { idempotencyKey: randomUUID(), event } };
  }
  let count = 0;
  for await (const answer of client.streamEvents(items(), { headers: { authorization: `Bearer ${token}` } }))
    count += answer.items.length;
  sessionManager.abort();
  return count;
};

const sizes = [10, 100, 1_000];
const planItem: unknown = JSON.parse(plan.json.toString());
const runs: readonly (readonly [kind: string, name: string, run: Run])[] = [
  ["decision", "single", calls(options.callers, 1, plan.restPath, () => plan.json)],
  ...sizes.map((size) => {
    const text = JSON.stringify({ items: copies(size, () => planItem) });
    return ["decision", String(size), calls(bulkCallers, size, "/v1/bulk/protection-plans", () => text)] as const;
  }),
  ["event", "single", calls(options.callers, 1, evidence.restPath, () => evidence.json)],
  ...sizes.map((size) => {
    return ["event", String(size), calls(bulkCallers, size, "/v1/bulk/evidence", () => eventsText(size))] as const;
  }),
  ["event", "stream", stream],
];

type Gateways = readonly { readonly store: string; readonly gateway: GatewayProcess }[];

async function measureItems(gateways: Gateways, token: string): Promise<void> {
  const cases = gateways.flatMap(({ store, gateway }) =>
    runs.map(([kind, name, run]) => ({
      ...{ store, kind, name },
      cpuMicros: gateway.cpuMicros,
      load: async (forSeconds: number) => {
        const beganAtMs = performance.now();
        const count = await run(gateway.listening.url, token, forSeconds);
        const tookSeconds = (performance.now() - beganAtMs) / 1_000;
        return { count, perSecond: count / tookSeconds, p50Ms: Number.NaN, p99Ms: Number.NaN };
      },
    })),
  );
  const results = await measureInTurn(cases, { seconds, rounds: options.rounds, warmUpSeconds: seconds });
  const costOf = (rounds: Rounds | undefined) => median(rounds?.all.map(({ cpuMicrosEach }) => cpuMicrosEach) ?? []);
  printTable(
    cases.map(({ store, kind, name }, at) => {
      const single = cases.findIndex((each) => each.store === store && each.kind === kind);
      return {
        ...{ store, item: kind, "items a call": name },
        "µs of processor time an item": Math.round(costOf(results[at])),
        "of the single route's": (costOf(results[at]) / costOf(results[single])).toFixed(2),
        "items/s": Math.round(results[at]?.median(({ perSecond }) => perSecond) ?? Number.NaN),
      };
    }),
  );
}

/** Measures the effect on the quiet tenant. Resolves with whether the aims are met. */
async function measureBeside({ listening: { url } }: GatewayProcess, loud: string, quiet: string): Promise<boolean> {
  const quietly = (forSeconds: number) =>
    watch(url + plan.restPath, headersOf(quiet), plan.json, { perSecond: options["per-second"], seconds: forSeconds });
  await quietly(5);
  const alone = seenOf(await quietly(10));
  const flood = load(besideCallers, seconds, () => post(`${url}/v1/bulk/evidence`, loud, eventsText(1_000)));
  const [ended, watched] = await Promise.all([flood, quietly(seconds)]);
  const seen = seenOf(watched);
  const isUp = (await post(url + plan.restPath, quiet, plan.json)) === "200";
  const odd = [...ended.keys()].filter((how) => how !== "200" && how !== "503" && how !== "429");
  const problems = [
    ...(isUp ? [] : ["the gateway does not serve"]),
    ...(seen.errors > 0 ? [`${seen.errors} errors of the other tenant`] : []),
    ...(seen.p99Ms <= limitMs(alone) ? [] : [`p99 above ${limitMs(alone).toFixed(1)} ms`]),
    ...(ended.has("200") ? [] : ["no bulk call was answered"]),
    ...odd.map((how) => `a bulk call ended with ${how}`),
  ];
  const text = ({ p50Ms, p99Ms }: typeof seen) => `p50 ${p50Ms.toFixed(1)} ms, p99 ${p99Ms.toFixed(1)} ms`;
  const lines = [
    `other tenant alone: ${text(alone)}; beside ${besideCallers} bulk calls: ${text(seen)}, ${seen.errors} errors`,
    `bulk calls: ${[...ended].map(([how, count]) => `${count} × ${how}`).join(", ")}`,
    problems.length === 0 ? "met" : `missed: ${problems.join("; ")}`,
  ];
  process.stdout.write(`${lines.join("\n")}\n`);
  return problems.length === 0;
}

using folder = temporaryFolder("bulk");
const server = await startPostgres({ settings: { shared_buffers: "128MB" } });
const tenants = await startTenants(2);
const gateways: GatewayProcess[] = [];
try {
  const start = async (store: "SQLite" | "PostgreSQL") => {
    const dataDir = join(folder.path, store);
    const url = store === "SQLite" ? undefined : await server.createDatabase();
    if (url !== undefined)
      await migratePostgres({ target: targetOf(url), random: (bytes: Uint8Array) => randomFillSync(bytes) });
    const env = { SVC_BULK: "on", ...(url !== undefined && { SVC_STORE: url }) };
    const gateway = await startGatewayProcess({ issuer: tenants.issuer, dataDir, env });
    gateways.push(gateway);
    return { store, gateway };
  };
  const [loud, quiet] = [tenants.tokenOf("tenant-0"), tenants.tokenOf("tenant-1")];
  if (!options.beside) await measureItems([await start("SQLite"), await start("PostgreSQL")], loud);
  else if (!(await measureBeside((await start("PostgreSQL")).gateway, loud, quiet))) process.exitCode = 1;
} finally {
  for (const gateway of gateways) await gateway.stop();
  await tenants.stop();
  await server.stop();
}
