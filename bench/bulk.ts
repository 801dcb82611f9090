/**
 * What an item costs in bulk: processor time of all the gateway's threads for each item of calls of 10, 100 and 1,000
 * items and of a stream, beside the single route with many callers at once; decisions and evidence, SQLite and PostgreSQL,
 * in turn, so that a machine that drifts favours nobody: look at the ratios. And how long others wait meanwhile: the
 * slowest whoami while calls of 1,000 items follow each other. PostgreSQL's own processes are not counted.
 *
 * With a peer decision server, its own batches over HTTP beside ours, in the same rounds and on the same 20 rules. It
 * records nothing but a line of its log for a request.
 *
 * `node bench/bulk.ts [--seconds 2] [--rounds 3] [--callers 64] [--peer <binary>]`, the binary as in `bench/policy.ts`
 *
 * With `--beside`: what another tenant notices, on PostgreSQL, while one has 40 calls of 1,000 events under way at any
 * moment, each sent again as soon as it is answered or refused: its errors and latencies beside its own alone, and whether
 * every call was answered and the gateway went on. Ends with 1 where an aim is missed.
 * `node bench/bulk.ts --beside [--seconds 60] [--per-second 50]`
 */
import { randomFillSync, randomUUID } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { sampleCalls } from "../dev/requests.ts";
import { BulkStreamService } from "../gen/platform/bulk/v1/streams_pb.ts";
import { EvidenceEventType } from "../gen/platform/sdk/v1/common_pb.ts";
import { migratePostgres } from "../src/stores/postgres/schema/migrate.ts";
import { targetOf } from "../test/contract/ledger-postgres-fixture.ts";
import { startPostgres } from "../test/harness/postgres.ts";
import { type GatewayProcess, startGatewayProcess } from "./deployment.ts";
import { seenOf, watch } from "./load.ts";
import {
  maxPeerResources,
  type Peer,
  peerHttpPath,
  peerJson,
  peerQuestion,
  requirePeerAllows,
  startPeer,
} from "./policy-peer.ts";
import { peerPolicy, policyFiles } from "./policy-rules.ts";
import { median } from "./rounds.ts";
import { scope, startTenants } from "./tenants.ts";

const { values } = parseArgs({
  options: {
    seconds: { type: "string" },
    rounds: { type: "string", default: "3" },
    callers: { type: "string", default: "64" },
    peer: { type: "string" },
    beside: { type: "boolean", default: false },
    /** Calls of the other tenant. */
    "per-second": { type: "string", default: "50" },
  },
});
const seconds = Number(values.seconds ?? (values.beside ? 60 : 2));
const rounds = Number(values.rounds);
const callers = Number(values.callers);
/** At most as many requests at once as a tenant's queue of records takes. */
const bulkCallers = 2;
/** Rules of the peer, and of the gateways beside it. */
const peerRules = 20;

const print = (line: string) => void process.stdout.write(`${line}\n`);
const agent = new http.Agent({ keepAlive: true, maxSockets: 256 });
const bodyOf = (route: string) => sampleCalls().find((call) => call.route === route)?.body;

function post(url: string, token: string, text: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const request = http.request(url, { method: "POST", agent, headers }, (response) => {
      response.resume();
      response.on("end", () => resolve(response.statusCode ?? 0));
    });
    request.on("error", reject);
    request.end(text);
  });
}

/** Makes calls one after the other on each of several connections, until the time is over; resolves with their number. */
async function load(count: number, call: () => Promise<number>, forSeconds = seconds): Promise<number> {
  const endsAtMs = performance.now() + forSeconds * 1000;
  let calls = 0;
  const caller = async () => {
    while (performance.now() < endsAtMs) {
      const status = await call();
      if (status !== 200) throw new Error(`answered ${status}`);
      calls += 1;
    }
  };
  await Promise.all(Array.from({ length: count }, caller));
  return calls;
}

/** What is measured. */
interface Target {
  readonly name: string;
  readonly url: string;
  readonly cpuMicros: () => number;
  readonly kinds: readonly { readonly kind: string; readonly cases: readonly Case[] }[];
}

interface Case {
  readonly name: string;
  /** Runs for the given time; resolves with the number of items. */
  readonly run: (url: string, token: string) => Promise<number>;
}

function decisions(): Case[] {
  const item = bodyOf("/v1/sdk/protection-plan");
  const text = JSON.stringify(item);
  return [
    { name: "single", run: (url, token) => load(callers, () => post(`${url}/v1/sdk/protection-plan`, token, text)) },
    ...[10, 100, 1000].map((size) => {
      const body = JSON.stringify({ items: Array.from({ length: size }, () => item) });
      const call = (url: string, token: string) => post(`${url}/v1/bulk/protection-plans`, token, body);
      const run = async (url: string, token: string) => size * (await load(bulkCallers, () => call(url, token)));
      return { name: String(size), run };
    }),
  ];
}

function evidence(): Case[] {
  const item = bodyOf("/v1/sdk/evidence");
  const text = JSON.stringify(item);
  return [
    { name: "single", run: (url, token) => load(callers, () => post(`${url}/v1/sdk/evidence`, token, text)) },
    ...[10, 100, 1000].map((size) => {
      const call = (url: string, token: string) => {
        const items = Array.from({ length: size }, () => ({ idempotency_key: randomUUID(), event: item }));
        return post(`${url}/v1/bulk/evidence`, token, JSON.stringify({ items }));
      };
      const run = async (url: string, token: string) => size * (await load(bulkCallers, () => call(url, token)));
      return { name: String(size), run };
    }),
    { name: "stream", run: stream },
  ];
}

async function stream(url: string, token: string): Promise<number> {
  const sessionManager = new Http2SessionManager(url);
  const client = createClient(BulkStreamService, createGrpcTransport({ baseUrl: url, sessionManager }));
  const endsAtMs = performance.now() + seconds * 1000;
  type Init = Parameters<typeof client.streamEvents>[0] extends AsyncIterable<infer Item> ? Item : never;
  async function* items(): AsyncGenerator<Init> {
    for (let sequence = 0n; performance.now() < endsAtMs; sequence++)
      yield {
        sequence,
        item: {
          idempotencyKey: randomUUID(),
          event: {
            eventType: EvidenceEventType.PROTECT,
            workload: { application: "payroll-export", environment: "production", component: "nightly-writer" },
            resource: { kind: "customer-record", id: "cust-8841", mimeType: "application/pdf" },
            purpose: "quarterly-audit",
            labels: ["confidential"],
            attributes: { region: "eu" },
          },
        },
      };
  }
  let count = 0;
  for await (const answer of client.streamEvents(items(), { headers: { authorization: `Bearer ${token}` } }))
    count += answer.items.length;
  sessionManager.abort();
  return count;
}

/** Questions about as many resources, which the peer answers in one call. */
function peerBatches(): Case[] {
  const body = bodyOf("/v1/sdk/protection-plan") as Parameters<typeof peerQuestion>[0];
  const question = peerQuestion(body, scope.split(" "));
  return [1, 10, 100, maxPeerResources].map((size) => {
    const text = peerJson(question, size).toString("utf8");
    const at = size === 1 ? callers : bulkCallers;
    const run = async (url: string) => size * (await load(at, () => post(url + peerHttpPath, "none", text)));
    return { name: size === 1 ? "single" : String(size), run };
  });
}

/** Calls that the loud tenant has under way, what the quiet one may see at most, and how long a call may take. */
const besideCallers = 40;
const marginMs = 20;
const hangingMs = 30_000;

/** Makes the loud tenant's calls until the time is over; resolves with how many ended how. */
async function flood(url: string, token: string): Promise<ReadonlyMap<string, number>> {
  const ended = new Map<string, number>();
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const event = bodyOf("/v1/sdk/evidence");
  const endsAtMs = performance.now() + seconds * 1000;
  const agent = new http.Agent({ keepAlive: true, maxSockets: besideCallers });
  const call = () =>
    new Promise<string>((resolve) => {
      const items = Array.from({ length: 1000 }, () => ({ idempotency_key: randomUUID(), event }));
      const options = { method: "POST", agent, headers, timeout: hangingMs };
      const request = http.request(`${url}/v1/bulk/evidence`, options, (response) => {
        response.resume();
        response.once("end", () => resolve(String(response.statusCode)));
        response.once("error", ({ message }) => resolve(message));
      });
      request.once("timeout", () => request.destroy(new Error("hangs")));
      request.once("error", ({ message }) => resolve(message));
      request.end(JSON.stringify({ items }));
    });
  const caller = async () => {
    while (performance.now() < endsAtMs) {
      const how = await call();
      ended.set(how, (ended.get(how) ?? 0) + 1);
    }
  };
  await Promise.all(Array.from({ length: besideCallers }, caller));
  agent.destroy();
  return ended;
}

/** Measures what the quiet tenant notices. Resolves with whether the aims are met. */
async function beside(gateway: GatewayProcess, loud: string, quiet: string): Promise<boolean> {
  const { url } = gateway.listening;
  const headers = { authorization: `Bearer ${quiet}`, "content-type": "application/json" };
  const body = Buffer.from(JSON.stringify(bodyOf("/v1/sdk/protection-plan")));
  const perSecond = Number(values["per-second"]);
  const quietly = (forSeconds: number) =>
    watch(`${url}/v1/sdk/protection-plan`, headers, body, { perSecond, seconds: forSeconds });
  await quietly(5);
  const alone = seenOf(await quietly(10));
  const [ended, calls] = await Promise.all([flood(url, loud), quietly(seconds)]);
  const seen = seenOf(calls);
  const limitMs = 2 * alone.p99Ms + marginMs;
  const isUp = (await post(`${url}/v1/sdk/protection-plan`, quiet, body.toString())) === 200;
  const odd = [...ended.keys()].filter((how) => how !== "200" && how !== "503" && how !== "429");
  const problems = [
    ...(isUp ? [] : ["the gateway does not serve"]),
    ...(seen.errors > 0 ? [`${seen.errors} errors of the other tenant`] : []),
    ...(seen.p99Ms <= limitMs ? [] : [`p99 above ${limitMs.toFixed(1)} ms`]),
    ...(ended.has("200") ? [] : ["no bulk call was answered"]),
    ...odd.map((how) => `a bulk call ended with ${how}`),
  ];
  const text = ({ p50Ms, p99Ms }: typeof seen) => `p50 ${p50Ms.toFixed(1)} ms, p99 ${p99Ms.toFixed(1)} ms`;
  print(`other tenant alone: ${text(alone)}; beside ${besideCallers} bulk calls: ${text(seen)}, ${seen.errors} errors`);
  print(`bulk calls: ${[...ended].map(([how, count]) => `${count} × ${how}`).join(", ")}`);
  print(problems.length === 0 ? "met" : `missed: ${problems.join("; ")}`);
  return problems.length === 0;
}

const directory = mkdtempSync(join(tmpdir(), "bench-bulk-"));
const server = await startPostgres({ settings: { shared_buffers: "128MB" } });
const tenants = await startTenants(2);
const gateways: GatewayProcess[] = [];
const peers: Peer[] = [];
try {
  const token = tenants.tokenOf("tenant-0");
  const policyDir = join(directory, "policies");
  for (const [file, text] of Object.entries(values.peer === undefined ? {} : policyFiles(peerRules - 1))) {
    mkdirSync(dirname(join(policyDir, file)), { recursive: true });
    writeFileSync(join(policyDir, file), text);
  }
  const start = async (store: "SQLite" | "PostgreSQL") => {
    const dataDir = join(directory, store);
    mkdirSync(dataDir);
    const url = store === "SQLite" ? undefined : await server.createDatabase();
    if (url !== undefined)
      await migratePostgres({ target: targetOf(url), random: (bytes: Uint8Array) => randomFillSync(bytes) });
    const env = {
      SVC_BULK: "on",
      ...(url !== undefined && { SVC_STORE: url }),
      ...(values.peer !== undefined && { SVC_POLICY_DIR: policyDir }),
    };
    const gateway = await startGatewayProcess({ issuer: tenants.issuer, dataDir, logFile: join(dataDir, "log"), env });
    gateways.push(gateway);
    return { store, gateway };
  };
  if (values.beside) {
    const { gateway } = await start("PostgreSQL");
    if (!(await beside(gateway, token, tenants.tokenOf("tenant-1")))) process.exitCode = 1;
  }
  const stores = values.beside ? [] : [await start("SQLite"), await start("PostgreSQL")];
  const kinds = [
    { kind: "decision", cases: decisions() },
    { kind: "evidence", cases: evidence() },
  ];
  const targets: Target[] = stores.map(({ store, gateway }) => ({
    ...{ name: store, url: gateway.listening.url, cpuMicros: () => gateway.cpuMicros(), kinds },
  }));
  if (values.peer !== undefined && !values.beside) {
    const peer = await startPeer(values.peer, directory, peerPolicy(peerRules));
    peers.push(peer);
    await requirePeerAllows(peer, peerQuestion(bodyOf("/v1/sdk/protection-plan") as never, scope.split(" ")));
    const kinds = [{ kind: "decision", cases: peerBatches() }];
    targets.push({ name: "the peer", url: peer.httpUrl, cpuMicros: () => peer.cpuMicros(), kinds });
  }
  const micros = new Map<string, number[]>();
  const perSecond = new Map<string, number[]>();
  for (let round = -1; round < rounds && targets.length > 0; round++) {
    for (const target of targets) {
      for (const { kind, cases } of target.kinds) {
        for (const { name, run } of cases) {
          const before = target.cpuMicros();
          const beganAtMs = performance.now();
          const items = await run(target.url, token);
          const key = `${target.name} ${kind} ${name}`;
          // The first round warms up.
          if (round < 0) continue;
          micros.set(key, [...(micros.get(key) ?? []), (target.cpuMicros() - before) / items]);
          const tookSeconds = (performance.now() - beganAtMs) / 1000;
          perSecond.set(key, [...(perSecond.get(key) ?? []), items / tookSeconds]);
        }
      }
    }
  }
  if (targets.length > 0)
    print("| store, kind | items a call | µs of processor time an item | of the single route's | items/s |");
  if (targets.length > 0) print("|---|---|---|---|---|");
  for (const target of targets) {
    for (const { kind, cases } of target.kinds) {
      const single = median(micros.get(`${target.name} ${kind} single`) ?? []);
      for (const { name } of cases) {
        const key = `${target.name} ${kind} ${name}`;
        const each = median(micros.get(key) ?? []);
        const rate = Math.round(median(perSecond.get(key) ?? []));
        print(`| ${target.name}, ${kind} | ${name} | ${each.toFixed(0)} | ${(each / single).toFixed(2)} | ${rate} |`);
      }
    }
  }
  for (const { store, gateway } of stores) {
    const { url } = gateway.listening;
    const waits: number[] = [];
    const whoami = () =>
      new Promise<number>((resolve, reject) => {
        const sinceMs = performance.now();
        const headers = { authorization: `Bearer ${token}` };
        const request = http.get(`${url}/v1/sdk/whoami`, { agent, headers }, (response) => {
          response.resume();
          response.on("end", () => {
            waits.push(performance.now() - sinceMs);
            resolve(response.statusCode ?? 0);
          });
        });
        request.on("error", reject);
      });
    const summary = () => {
      const sorted = waits.splice(0).sort((a, b) => a - b);
      const at = (share: number) => (sorted[Math.floor(share * (sorted.length - 1))] ?? 0).toFixed(1);
      return `median ${at(0.5)} ms, p99 ${at(0.99)} ms, slowest ${at(1)} ms of ${sorted.length}`;
    };
    await load(1, whoami);
    print(`${store}: whoami alone: ${summary()}`);
    const body = JSON.stringify({ items: Array.from({ length: 1000 }, () => bodyOf("/v1/sdk/protection-plan")) });
    const bulk = load(1, () => post(`${url}/v1/bulk/protection-plans`, token, body));
    await load(1, whoami);
    print(`${store}: whoami beside calls of 1,000 decisions: ${summary()}`);
    await bulk;
  }
} finally {
  agent.destroy();
  for (const { stop } of [...gateways, ...peers]) await stop();
  await tenants.stop();
  await server.stop();
  rmSync(directory, { recursive: true, force: true });
}
