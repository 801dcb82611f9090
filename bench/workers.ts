/**
 * What a second worker costs: requests for each second of processor time, with two workers and with one, on the same
 * cores, over HTTP/1.1 and gRPC, on the embedded store. The load generator's own time is left out; since it shares the
 * cores, requests a second say less here. The order of the two changes with each round, and the table has medians, of
 * ratios too.
 *
 * `node bench/workers.ts [--seconds 5] [--rounds 5] [--workers 2] [--connections 64] [--only whoami]`
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { benchCalls } from "./calls.ts";
import { fetchToken, type GatewayProcess, startBenchIssuer, startGatewayProcess } from "./deployment.ts";
import { loadHttp1, loadHttp2, type Measured } from "./load.ts";
import { median } from "./rounds.ts";
import { requireTools } from "./tools.ts";

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "5" },
    rounds: { type: "string", default: "5" },
    workers: { type: "string", default: "2" },
    connections: { type: "string", default: "64" },
    only: { type: "string" },
  },
});
const seconds = Number(values.seconds);
const rounds = Number(values.rounds);
const connections = Number(values.connections);
const warmUpSeconds = 3;
const loadCore = 1;

interface Round {
  readonly perSecond: number;
  readonly perCpuSecond: number;
}

async function measure({ cpuMicros }: GatewayProcess, load: () => Promise<Measured>): Promise<Round> {
  const before = cpuMicros();
  const { perSecond } = await load();
  return { perSecond, perCpuSecond: (perSecond * seconds) / ((cpuMicros() - before) / 1e6) };
}

// biome-ignore lint/suspicious/noConsole: the table is what this program is for
const printTable = console.table;

requireTools("wrk", "h2load", "taskset");
const directory = mkdtempSync(join(tmpdir(), "bench-workers-"));
const issuer = await startBenchIssuer();
const started: GatewayProcess[] = [];
try {
  const token = await fetchToken(issuer);
  const start = (workers: string) =>
    startGatewayProcess({
      issuer,
      dataDir: join(directory, workers),
      logFile: join(directory, `${workers}.log`),
      env: { SVC_WORKERS: workers },
    });
  const one = await start("1");
  started.push(one);
  const several = await start(values.workers);
  started.push(several);
  const gateways = [one, several] as const;
  const rows: Record<string, string | number>[] = [];
  const calls = benchCalls().filter(({ name }) => values.only === undefined || values.only === name);
  for (const { name, restPath, json, rpcPath, frame } of calls) {
    const shared = { core: loadCore, directory };
    const authorization = `Bearer ${token}`;
    const loads = {
      REST: (url: string, seconds: number) =>
        loadHttp1({
          ...{ ...shared, seconds, connections, url: url + restPath },
          headers: { authorization, ...(json && { "content-type": "application/json" }) },
          ...(json && { body: json }),
        }),
      gRPC: (url: string, seconds: number) =>
        loadHttp2({
          ...{ ...shared, seconds, url: url + rpcPath },
          headers: { authorization, "content-type": "application/grpc", te: "trailers" },
          body: frame,
        }),
    };
    for (const [protocol, load] of Object.entries(loads)) {
      for (const { listening } of gateways) await load(listening.url, warmUpSeconds);
      const found: [Round[], Round[]] = [[], []];
      for (let round = 0; round < rounds; round++)
        for (const which of round % 2 === 0 ? ([0, 1] as const) : ([1, 0] as const)) {
          const gateway = gateways[which];
          found[which].push(await measure(gateway, () => load(gateway.listening.url, seconds)));
        }
      const [base, others] = found;
      const ratio = (of: keyof Round) => median(others.map((round, i) => round[of] / (base[i]?.[of] ?? Number.NaN)));
      rows.push({
        call: `${protocol} ${name}`,
        "1 worker: requests/CPU s": Math.round(median(base.map(({ perCpuSecond }) => perCpuSecond))),
        [`${values.workers} workers`]: Math.round(median(others.map(({ perCpuSecond }) => perCpuSecond))),
        ratio: ratio("perCpuSecond").toFixed(2),
        "requests/s, ratio": ratio("perSecond").toFixed(2),
      });
    }
  }
  printTable(rows);
} finally {
  for (const gateway of started) await gateway.stop();
  await issuer.stop();
  rmSync(directory, { recursive: true });
}
