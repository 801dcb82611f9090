/**
 * Overhead of the gateway: requests a second, and latencies, of three calls on REST and gRPC, beside a bare fastify
 * that sends the same answers, and on gRPC beside Connect's stock plugin with the same gate, rules and handlers; then
 * the time to be ready, and idle memory, of the deployed program and from source. `--starts-only`: only the latter.
 *
 * Servers are pinned to one core, load generators to another. A round measures all servers of a call in turn. The table
 * shows medians over the rounds, also of ratios, so that drift of the machine favours no server. On a machine with
 * other load, the processor time of a request is more reliable than requests a second.
 *
 * `node bench/gateway.ts [--seconds 3] [--rounds 5] [--only whoami] [--starts-only]`
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Issuer } from "../dev/issuer.ts";
import { answersOf, type BenchCall, benchCalls } from "./calls.ts";
import { type Child, startChild } from "./child.ts";
import {
  fetchToken,
  type GatewayOptions,
  type GatewayProcess,
  startBenchIssuer,
  startGatewayProcess,
} from "./deployment.ts";
import { concurrency, loadHttp1, loadHttp2 } from "./load.ts";
import { type LoadedServer, measureInTurn, median, printTable, readOptions, temporaryFolder } from "./run.ts";

const options = readOptions({ seconds: 3, rounds: 5, only: "", "starts-only": false });
const { seconds, rounds } = options;
const warmUpSeconds = 2;
const serverCore = 0;
const loadCore = 1;
const starts = 5;
/** Time until an idle server has settled, in milliseconds. */
const idleMs = 2_000;

interface Bare {
  readonly url: string;
  readonly http2_url: string;
}

/**
 * One row of the table for each target of a call on a protocol; the first is the bare server, the second the gateway.
 */
interface Scenario {
  readonly name: string;
  readonly targets: readonly (LoadedServer & { readonly name: string })[];
}

/** Rows of the table, one for each target. */
async function measureScenario({ name, targets }: Scenario): Promise<Record<string, string | number>[]> {
  const results = await measureInTurn(targets, { seconds, rounds, warmUpSeconds });
  const [bare, , stock] = results;
  return results.map((own, at) => ({
    call: name,
    server: targets[at]?.name ?? "",
    "requests/s": Math.round(own.median(({ perSecond }) => perSecond)),
    "p50 ms": own.median(({ p50Ms }) => p50Ms).toFixed(2),
    "p99 ms": own.median(({ p99Ms }) => p99Ms).toFixed(2),
    "CPU µs each": Math.round(own.median(({ cpuMicrosEach }) => cpuMicrosEach)),
    ...(bare && { "of bare (by CPU)": own.of(bare) }),
    ...(at === 1 && stock && { "of stock (by CPU)": own.of(stock) }),
  }));
}

function scenarios(
  calls: readonly BenchCall[],
  bare: Child<Bare>,
  gateway: GatewayProcess,
  stock: GatewayProcess,
  token: string,
): readonly Scenario[] {
  const { url, http2_url: http2Url } = bare.listening;
  const { url: gatewayUrl } = gateway.listening;
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
    // Calls with the usual form of the content type would not reach fastify, nor the stock plugin.
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
          { name: "bare", load: rest(url), cpuMicros: bare.cpuMicros },
          { name: "gateway", load: rest(gatewayUrl), cpuMicros: gateway.cpuMicros },
        ],
      },
      {
        name: `gRPC ${name}`,
        targets: [
          { name: "bare", load: grpc(http2Url, "application/grpc"), cpuMicros: bare.cpuMicros },
          { name: "gateway", load: grpc(gatewayUrl, "application/grpc"), cpuMicros: gateway.cpuMicros },
          { name: "stock plugin", load: grpc(stock.listening.url, "Application/grpc"), cpuMicros: stock.cpuMicros },
        ],
      },
    ];
  });
}

/** Rejects if a call was refused: a fast refusal is not a valid result. */
async function requireNoRefusals(opsUrl: string): Promise<void> {
  const text = await (await fetch(`${opsUrl}/metrics`)).text();
  const refused = text.split("\n").filter((line) => line.startsWith("svc_calls_total{") && !line.includes('code="ok"'));
  // A generator that stops at the end of its time abandons calls, which count as canceled.
  const unexpected = refused.filter((line) => !line.includes('code="canceled"'));
  if (unexpected.length > 0) throw new Error(`calls were refused:\n${unexpected.join("\n")}`);
}

const programs = ["built", "read-only", "source"] as const;

/** Starts each program in turn. The first start fills the compile cache and is not counted. */
async function measureStarts(issuer: Issuer): Promise<readonly Record<string, string>[]> {
  const found = programs.map(() => ({ readyMs: [] as number[], cpuMs: [] as number[], residentMiB: [] as number[] }));
  for (let i = 0; i <= starts; i++) {
    for (const [position, program] of programs.entries()) {
      const began = performance.now();
      const gateway = await start(issuer, `start-${program}-${i}`, { program });
      const readyMs = performance.now() - began;
      const cpuMs = gateway.cpuMicros() / 1000;
      await delay(idleMs);
      const residentMiB = gateway.residentBytes() / 1024 ** 2;
      await gateway.stop();
      if (i === 0) continue;
      found[position]?.readyMs.push(readyMs);
      found[position]?.cpuMs.push(cpuMs);
      found[position]?.residentMiB.push(residentMiB);
    }
  }
  return found.map(({ readyMs, cpuMs, residentMiB }, position) => ({
    program: `${programs[position]}`,
    "time to ready, ms": median(readyMs).toFixed(0),
    "processor time until then, ms": median(cpuMs).toFixed(0),
    "idle memory (RSS), MiB": median(residentMiB).toFixed(0),
  }));
}

function start(
  issuer: Issuer,
  name: string,
  options: Pick<GatewayOptions, "core" | "program" | "nodeOptions"> = {},
): Promise<GatewayProcess> {
  return startGatewayProcess({ issuer, dataDir: join(directory, name), ...options });
}

async function measureCalls(issuer: Issuer): Promise<void> {
  const token = await fetchToken(issuer);
  const gateway = await start(issuer, "gateway", { core: serverCore });
  const nodeOptions = ["--import", join(import.meta.dirname, "stock.ts")];
  const stock = await start(issuer, "stock", { core: serverCore, program: "source", nodeOptions });
  const calls = benchCalls().filter(({ name }) => name.includes(options.only));
  const answers: Record<string, unknown> = {};
  for (const call of calls) {
    const { json, frame } = await answersOf(gateway.listening.url, token, call);
    answers[call.restPath] = { method: call.json === undefined ? "GET" : "POST", json: JSON.parse(json) };
    answers[call.rpcPath] = { method: "POST", frame };
  }
  const answersFile = join(directory, "answers.json");
  writeFileSync(answersFile, JSON.stringify(answers));
  const bare = await startChild<Bare>({
    command: [join(import.meta.dirname, "bare.ts"), answersFile],
    env: {},
    logFile: join(directory, "bare.log"),
    core: serverCore,
  });
  const rows: Record<string, string | number>[] = [];
  for (const scenario of scenarios(calls, bare, gateway, stock, token)) rows.push(...(await measureScenario(scenario)));
  for (const { listening } of [gateway, stock]) await requireNoRefusals(listening.ops_url);
  for (const server of [bare, gateway, stock]) await server.stop();
  process.stdout.write(
    `${rounds} rounds of ${seconds} s, ${concurrency} requests in flight, Node ${process.version}\n`,
  );
  printTable(rows);
}

using folder = temporaryFolder("gateway");
const directory = folder.path;
const issuer = await startBenchIssuer();
try {
  if (!options["starts-only"]) await measureCalls(issuer);
  printTable(await measureStarts(issuer));
} finally {
  await issuer.stop();
}
