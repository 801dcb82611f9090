/**
 * What the gateway adds: requests a second, and latencies, of three calls on REST and gRPC, beside a bare fastify that
 * answers as much, and beside Connect's stock plugin on gRPC; then the time to be ready, and idle memory.
 *
 * Servers are pinned to one core, load generators to another. A round measures all servers of a call in turn and
 * the table shows medians over the rounds, of ratios too, so that a machine that drifts does not favour anybody.
 *
 * `node bench/gateway.ts [--seconds 3] [--rounds 5] [--only whoami]`
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import type { Issuer } from "../dev/issuer.ts";
import { answersOf, type BenchCall, benchCalls } from "./calls.ts";
import { startChild } from "./child.ts";
import { fetchToken, type GatewayProcess, startBenchIssuer, startGatewayProcess } from "./deployment.ts";
import { concurrency, loadHttp1, loadHttp2, type Measured } from "./load.ts";
import { requireTools } from "./tools.ts";

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "3" },
    rounds: { type: "string", default: "5" },
    only: { type: "string" },
  },
});
const seconds = Number(values.seconds);
const rounds = Number(values.rounds);
const serverCore = 0;
const loadCore = 1;
const warmUpSeconds = 2;
const starts = 5;
/** Time after which a server that has nothing to do has settled. */
const idleMs = 2_000;

/** A server that one call is sent to. */
interface Target {
  readonly name: "bare" | "gateway" | "stock plugin";
  readonly measure: (seconds: number) => Promise<Measured>;
}

/** One row of the table for each target of a call on a protocol. */
interface Scenario {
  readonly name: string;
  readonly targets: readonly Target[];
}

function scenarios(
  calls: readonly BenchCall[],
  urls: { readonly bare: string; readonly bareHttp2: string; readonly gateway: string },
  token: string,
): readonly Scenario[] {
  const shared = { core: loadCore, directory };
  return calls.flatMap(({ name, restPath, json, rpcPath, frame }) => {
    const rest = (url: string) => (seconds: number) =>
      loadHttp1({
        ...shared,
        seconds,
        url: url + restPath,
        headers: { authorization: `Bearer ${token}`, ...(json && { "content-type": "application/json" }) },
        ...(json && { body: json }),
      });
    // The adapter serves the type as it is usually written; in another spelling it is the stock plugin's to serve.
    const grpc = (url: string, type: string) => (seconds: number) =>
      loadHttp2({
        ...shared,
        seconds,
        url: url + rpcPath,
        headers: { authorization: `Bearer ${token}`, "content-type": type, te: "trailers" },
        body: frame,
      });
    return [
      {
        name: `REST ${name}`,
        targets: [
          { name: "bare", measure: rest(urls.bare) },
          { name: "gateway", measure: rest(urls.gateway) },
        ],
      },
      {
        name: `gRPC ${name}`,
        targets: [
          { name: "bare", measure: grpc(urls.bareHttp2, "application/grpc") },
          { name: "gateway", measure: grpc(urls.gateway, "application/grpc") },
          { name: "stock plugin", measure: grpc(urls.gateway, "Application/grpc") },
        ],
      },
    ];
  });
}

async function measureScenario({ name, targets }: Scenario): Promise<Record<string, string | number>[]> {
  for (const { measure } of targets) await measure(warmUpSeconds);
  const results = new Map<string, Measured[]>(targets.map((target) => [target.name, []]));
  for (let round = 0; round < rounds; round++) {
    for (const target of targets) results.get(target.name)?.push(await target.measure(seconds));
  }
  const of = (target: string) => results.get(target) ?? [];
  const ratio = (target: string, base: string) =>
    median(of(target).map(({ perSecond }, round) => perSecond / (of(base)[round]?.perSecond ?? Number.NaN))).toFixed(3);
  return targets.map((target) => ({
    call: name,
    server: target.name,
    "requests/s": Math.round(median(of(target.name).map(({ perSecond }) => perSecond))),
    "p50 ms": median(of(target.name).map(({ p50Ms }) => p50Ms)).toFixed(2),
    "p99 ms": median(of(target.name).map(({ p99Ms }) => p99Ms)).toFixed(2),
    "of bare": ratio(target.name, "bare"),
    ...(target.name === "gateway" && of("stock plugin").length > 0 && { "of stock": ratio("gateway", "stock plugin") }),
  }));
}

/** Everything that was measured must have been done: a fast refusal is no result. */
async function requireNoRefusals(opsUrl: string): Promise<void> {
  const text = await (await fetch(`${opsUrl}/metrics`)).text();
  const refused = text.split("\n").filter((line) => line.startsWith("svc_calls_total{") && !line.includes('code="ok"'));
  // A generator that stops at the end of its time leaves calls behind, which count as canceled.
  const unexpected = refused.filter((line) => !line.includes('code="canceled"'));
  if (unexpected.length > 0) throw new Error(`calls were refused:\n${unexpected.join("\n")}`);
}

async function measureStarts(issuer: Issuer): Promise<Record<string, string>> {
  const readyMs: number[] = [];
  const residentMiB: number[] = [];
  for (let i = 0; i < starts; i++) {
    const began = performance.now();
    const gateway = await start(issuer, `start-${i}`);
    readyMs.push(performance.now() - began);
    await delay(idleMs);
    residentMiB.push(gateway.residentBytes() / 1024 ** 2);
    await gateway.stop();
  }
  return {
    "time to ready, ms": median(readyMs).toFixed(0),
    "idle memory (RSS), MiB": median(residentMiB).toFixed(0),
  };
}

function start(issuer: Issuer, name: string, core?: number): Promise<GatewayProcess> {
  const files = { dataDir: join(directory, name), logFile: join(directory, `${name}.log`) };
  return startGatewayProcess({ issuer, ...files, ...(core !== undefined && { core }) });
}

function median(numbers: readonly number[]): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

// biome-ignore lint/suspicious/noConsole: the table is what this program is for
const printTable = console.table;

requireTools("wrk", "h2load", "taskset");
const directory = mkdtempSync(join(tmpdir(), "bench-gateway-"));
const issuer = await startBenchIssuer();
try {
  const token = await fetchToken(issuer);
  const gateway = await start(issuer, "gateway", serverCore);
  const calls = benchCalls().filter(({ name }) => values.only === undefined || values.only === name);
  const answers: Record<string, unknown> = {};
  for (const call of calls) {
    const { json, frame } = await answersOf(gateway.listening.url, token, call);
    answers[call.restPath] = { method: call.json === undefined ? "GET" : "POST", json: JSON.parse(json) };
    answers[call.rpcPath] = { method: "POST", frame };
  }
  const answersFile = join(directory, "answers.json");
  writeFileSync(answersFile, JSON.stringify(answers));
  const bare = await startChild<{ readonly url: string; readonly http2_url: string }>({
    command: [join(import.meta.dirname, "bare.ts"), answersFile],
    env: {},
    logFile: join(directory, "bare.log"),
    core: serverCore,
  });
  const urls = { bare: bare.listening.url, bareHttp2: bare.listening.http2_url, gateway: gateway.listening.url };
  const rows: Record<string, string | number>[] = [];
  for (const scenario of scenarios(calls, urls, token)) rows.push(...(await measureScenario(scenario)));
  await requireNoRefusals(gateway.listening.ops_url);
  await bare.stop();
  await gateway.stop();
  process.stdout.write(
    `${rounds} rounds of ${seconds} s, ${concurrency} requests in flight, Node ${process.version}\n`,
  );
  printTable(rows);
  printTable(await measureStarts(issuer));
} finally {
  await issuer.stop();
  rmSync(directory, { recursive: true });
}
