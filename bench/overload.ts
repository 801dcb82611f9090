/**
 * What the gateway still does when more is asked of it than it can do: recorded plans a second by the number of
 * callers that ask again as soon as they are answered, or refused, beside the best of the same run.
 *
 * The server, with all its threads, is pinned to one core and the load generator to the other. Plans are counted by the
 * server itself, so that what is refused does not count. On a machine that does other work at the same time, its
 * processor time for each recorded plan, refusals included, says more.
 *
 * `node bench/overload.ts [--seconds 5] [--rounds 3] [--callers 64,128,640,2000]`
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { benchCalls } from "./calls.ts";
import { fetchToken, startBenchIssuer, startGatewayProcess } from "./deployment.ts";
import { loadHttp1, loadHttp2, type Measured } from "./load.ts";
import { median } from "./rounds.ts";
import { requireTools } from "./tools.ts";

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "5" },
    rounds: { type: "string", default: "3" },
    callers: { type: "string", default: "64,128,640,2000" },
    profile: { type: "string" },
  },
});
const seconds = Number(values.seconds);
const rounds = Number(values.rounds);
const callers = values.callers.split(",").map(Number);
const serverCore = 0;
const loadCore = 1;
const aim = 0.8;

interface Counts {
  readonly ok: number;
  readonly refused: number;
}

/** Calls so far, as the server counts them. Those whose caller went away, as all do at the end of a load, are left out. */
async function countCalls(opsUrl: string): Promise<Counts> {
  const text = await (await fetch(`${opsUrl}/metrics`)).text();
  let ok = 0;
  let refused = 0;
  for (const line of text.split("\n")) {
    const [, labels = "", count] = /^svc_calls_total\{(.*)\} (\d+)$/.exec(line) ?? [];
    if (labels.includes('code="ok"')) ok += Number(count);
    else if (count !== undefined && !labels.includes('code="canceled"')) refused += Number(count);
  }
  return { ok, refused };
}

interface Round extends Measured {
  readonly okPerSecond: number;
  readonly refusedPerSecond: number;
  readonly cpuMicrosEach: number;
}

requireTools("wrk", "h2load", "taskset");
const directory = mkdtempSync(join(tmpdir(), "bench-overload-"));
const issuer = await startBenchIssuer();
try {
  const token = await fetchToken(issuer);
  const gateway = await startGatewayProcess({
    issuer,
    dataDir: join(directory, "data"),
    logFile: join(directory, "gateway.log"),
    core: serverCore,
    ...(values.profile !== undefined && { nodeOptions: ["--cpu-prof", `--cpu-prof-dir=${values.profile}`] }),
  });
  const { url, ops_url: opsUrl } = gateway.listening;
  const plan = benchCalls().find(({ name }) => name === "protection-plan");
  if (plan?.json === undefined) throw new Error("there is no plan to ask for");
  const { restPath, json, rpcPath, frame } = plan;
  const shared = { core: loadCore, directory, mayRefuse: true };
  const authorization = `Bearer ${token}`;
  const loads = {
    REST: (connections: number, seconds: number) =>
      loadHttp1({
        ...shared,
        ...{ connections, seconds, url: url + restPath, body: json },
        headers: { authorization, "content-type": "application/json" },
      }),
    gRPC: (connections: number, seconds: number) =>
      loadHttp2({
        ...shared,
        ...{ connections, seconds, url: url + rpcPath, body: frame },
        headers: { authorization, "content-type": "application/grpc", te: "trailers" },
      }),
  };
  const rows: Record<string, string | number>[] = [];
  for (const [protocol, load] of Object.entries(loads)) {
    const results = new Map<number, Round[]>(callers.map((count) => [count, []]));
    await load(64, 3);
    for (let round = 0; round < rounds; round++) {
      for (const count of callers) {
        const [before, cpuBefore] = [await countCalls(opsUrl), gateway.cpuMicros()];
        const measured = await load(count, seconds);
        const after = await countCalls(opsUrl);
        const ok = after.ok - before.ok;
        results.get(count)?.push({
          ...measured,
          okPerSecond: ok / seconds,
          refusedPerSecond: (after.refused - before.refused) / seconds,
          cpuMicrosEach: (gateway.cpuMicros() - cpuBefore) / ok,
        });
      }
    }
    const of = (count: number, what: (round: Round) => number) => median((results.get(count) ?? []).map(what));
    const best = Math.max(...callers.map((count) => of(count, ({ okPerSecond }) => okPerSecond)));
    const share = (count: number) => of(count, ({ okPerSecond }) => okPerSecond) / best;
    const cheapest = Math.min(...callers.map((count) => of(count, ({ cpuMicrosEach }) => cpuMicrosEach)));
    const byCpu = (count: number) => cheapest / of(count, ({ cpuMicrosEach }) => cpuMicrosEach);
    for (const count of callers) {
      rows.push({
        protocol,
        callers: count,
        "recorded/s": Math.round(of(count, ({ okPerSecond }) => okPerSecond)),
        "refused/s": Math.round(of(count, ({ refusedPerSecond }) => refusedPerSecond)),
        "of the best (by CPU)": `${share(count).toFixed(2)} (${byCpu(count).toFixed(2)})${share(count) < aim ? " missed" : ""}`,
        "p50 ms": of(count, ({ p50Ms }) => p50Ms).toFixed(1),
        "p99 ms": of(count, ({ p99Ms }) => p99Ms).toFixed(1),
        "CPU µs each": Math.round(of(count, ({ cpuMicrosEach }) => cpuMicrosEach)),
        "memory, MiB": Math.round(gateway.residentBytes() / 1024 ** 2),
      });
    }
  }
  await gateway.stop();
  // biome-ignore lint/suspicious/noConsole: the table is what this program is for
  console.table(rows);
} finally {
  await issuer.stop();
  rmSync(directory, { recursive: true });
}
