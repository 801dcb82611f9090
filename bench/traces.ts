/**
 * What traces cost: processor time of a request with traces off, on with none exported, with one call in a hundred, and
 * with all of them; then the time to be ready, and memory after the load. The collector takes everything, on the core of the
 * load. The order changes with each round, and the table has medians of ratios.
 *
 * `node bench/traces.ts [--seconds 3] [--rounds 5] [--only protection-plan]`
 */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { benchCalls } from "./calls.ts";
import { fetchToken, type GatewayProcess, startBenchIssuer, startGatewayProcess } from "./deployment.ts";
import { loadHttp1 } from "./load.ts";
import { median } from "./rounds.ts";
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
const warmUpSeconds = 2;
const serverCore = 0;
const loadCore = 1;

interface Round {
  readonly perSecond: number;
  readonly p99Ms: number;
  readonly cpuMicrosEach: number;
}

// biome-ignore lint/suspicious/noConsole: the table is what this program is for
const printTable = console.table;

requireTools("wrk", "taskset");
const directory = mkdtempSync(join(tmpdir(), "bench-traces-"));
let received = 0;
const collector = createServer((request, response) => {
  received += 1;
  request.resume().once("end", () => response.writeHead(200, { "content-type": "application/x-protobuf" }).end());
});
await new Promise<void>((resolve) => collector.listen(0, "127.0.0.1", resolve));
const issuer = await startBenchIssuer();
const endpoint = `http://127.0.0.1:${(collector.address() as AddressInfo).port}`;
const ratioOf = (ratio: string) => ({
  ...{ OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, OTEL_TRACES_SAMPLER: "parentbased_traceidratio" },
  OTEL_TRACES_SAMPLER_ARG: ratio,
});
const kinds: readonly { readonly name: string; readonly env: Record<string, string> }[] = [
  { name: "off", env: {} },
  { name: "on, none exported", env: ratioOf("0") },
  { name: "on, 1%", env: ratioOf("0.01") },
  { name: "on, all", env: ratioOf("1") },
];
const started: { readonly name: string; readonly gateway: GatewayProcess; readonly readyMs: number }[] = [];
try {
  const token = await fetchToken(issuer);
  for (const { name, env } of kinds) {
    const files = { dataDir: join(directory, name), logFile: join(directory, `${name}.log`) };
    const began = performance.now();
    const gateway = await startGatewayProcess({ issuer, ...files, core: serverCore, env });
    started.push({ name, gateway, readyMs: performance.now() - began });
  }
  const rows: Record<string, string | number>[] = [];
  for (const { name: call, restPath, json } of benchCalls().filter((one) => (values.only ?? one.name) === one.name)) {
    const load = ({ listening: { url } }: GatewayProcess, forSeconds: number) =>
      loadHttp1({
        ...{ core: loadCore, directory, seconds: forSeconds, url: url + restPath },
        headers: { authorization: `Bearer ${token}`, ...(json && { "content-type": "application/json" }) },
        ...(json && { body: json }),
      });
    for (const { gateway } of started) await load(gateway, warmUpSeconds);
    const found = new Map<string, Round[]>(started.map(({ name }) => [name, []]));
    for (let round = 0; round < rounds; round++) {
      const first = round % started.length;
      for (const { name, gateway } of [...started.slice(first), ...started.slice(0, first)]) {
        const before = gateway.cpuMicros();
        const { perSecond, p99Ms } = await load(gateway, seconds);
        const cpuMicrosEach = (gateway.cpuMicros() - before) / (perSecond * seconds);
        found.get(name)?.push({ perSecond, p99Ms, cpuMicrosEach });
      }
    }
    const off = found.get("off") ?? [];
    for (const [name, own] of found) {
      const ratio = (of: (round: Round) => number) =>
        median(own.map((round, i) => of(round) / of(off[i] as Round))).toFixed(3);
      rows.push({
        ...{ call, traces: name, "requests/s": Math.round(median(own.map(({ perSecond }) => perSecond))) },
        "p99 ms": median(own.map(({ p99Ms }) => p99Ms)).toFixed(2),
        "CPU µs each": median(own.map(({ cpuMicrosEach }) => cpuMicrosEach)).toFixed(1),
        ...{
          "CPU of off": ratio((round) => round.cpuMicrosEach),
          "requests of off": ratio((round) => round.perSecond),
        },
      });
    }
  }
  printTable(rows);
  printTable(
    started.map(({ name, gateway, readyMs }) => ({
      traces: name,
      ...{ "ready ms": Math.round(readyMs), "RSS MiB": Math.round(gateway.residentBytes() / 1024 ** 2) },
    })),
  );
  process.stdout.write(`${received} requests to the collector\n`);
} finally {
  for (const { gateway } of started) await gateway.stop();
  await issuer.stop();
  collector.closeAllConnections();
  collector.close();
  rmSync(directory, { recursive: true });
}
