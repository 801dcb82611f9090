/**
 * What the gateway still does under overload: recorded plans a second by the number of callers that ask again as soon
 * as they are answered or refused, beside the best of the same run.
 *
 * The server, with all its threads, is pinned to one core and the load generator to the other. The server itself counts
 * the plans, so refusals do not count. On a machine with other load, its processor time for each recorded plan,
 * including refusals, is more reliable.
 *
 * `node bench/overload.ts [--seconds 5] [--rounds 3] [--callers 64,128,640,2000]`
 *
 * With `--beside`: effect on another tenant that asks for its share, while one has ten times the callers that saturate
 * the gateway: errors, latencies beside those without load, memory, the time until it is served as before, and whether
 * everything acknowledged is in the logs. Exits with 1 if an aim is missed. `node bench/overload.ts --beside [--seconds
 * 60] [--share 0.1]`
 */
import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { startIssuer } from "../dev/issuer.ts";
import { benchCall } from "./calls.ts";
import { fetchToken, startGatewayProcess, storeSettings } from "./deployment.ts";
import { limitMs, loadHttp1, loadHttp2, type Measured, seenOf, type Watched, watch } from "./load.ts";
import { median, numbersOf, printTable, readOptions, temporaryFolder } from "./run.ts";

const options = readOptions({ seconds: "", rounds: 3, callers: "64,128,640,2000", beside: false, share: 0.1 });
const seconds = Number(options.seconds || (options.beside ? 60 : 5));
const callers = numbersOf(options.callers);
const serverCore = 0;
const loadCore = 1;
const aim = 0.8;
const saturatingCallers = 64;
const maxMemoryMiB = 600;
const maxRecoveryMs = 2_000;

interface Counts {
  readonly ok: number;
  readonly refused: number;
}

/**
 * Calls so far, as the server counts them. Calls whose caller disconnected, as all do at the end of a load, are
 * omitted.
 */
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

/** Leaves of all logs except the first of each, which belongs to no call. Rejects if a log does not verify. */
async function countLeaves(dataDir: string): Promise<number> {
  const cli = join(import.meta.dirname, "../src/cli/cli.ts");
  const env = { PATH: process.env.PATH ?? "", ...storeSettings(dataDir) };
  const { stdout } = await promisify(execFile)(process.execPath, [cli, "ledger", "verify"], { env });
  return [...stdout.matchAll(/: (\d+) leaves/g)].reduce((sum, [, count]) => sum + Number(count) - 1, 0);
}

/**
 * Milliseconds from the end of a load until calls are served as before: until no more than one in a hundred of the
 * remaining ones takes longer than the limit, as the p99 allows.
 */
function recovery(calls: readonly Watched[], limit: number, endedAtMs: number): number {
  const isSlow = ({ isOk, latencyMs }: Watched) => !isOk || latencyMs > limit;
  const ordered = [...calls].sort((a, b) => a.dueAtMs - b.dueAtMs);
  let slowLeft = ordered.filter(isSlow).length;
  let recoveredAtMs = endedAtMs;
  for (const [i, call] of ordered.entries()) {
    if (slowLeft <= (ordered.length - i) / 100) break;
    if (!isSlow(call)) continue;
    slowLeft -= 1;
    recoveredAtMs = Math.max(recoveredAtMs, call.dueAtMs + call.latencyMs);
  }
  return recoveredAtMs - endedAtMs;
}

interface Round extends Measured {
  readonly okPerSecond: number;
  readonly refusedPerSecond: number;
  readonly cpuMicrosEach: number;
}

using folder = temporaryFolder("overload");
const directory = folder.path;
const client = (tenantId: string) => ({
  ...{ clientId: tenantId, clientSecret: randomUUID(), tenantId, principalId: tenantId },
  scopes: ["platform-api.access", "policy.read"],
});
const issuer = await startIssuer({ tokenLifetimeSeconds: 86_400, clients: [client("hot"), client("quiet")] });
try {
  const [token, quiet] = [await fetchToken(issuer, "hot"), await fetchToken(issuer, "quiet")];
  const gateway = await startGatewayProcess({ issuer, dataDir: join(directory, "data"), core: serverCore });
  const { url, ops_url: opsUrl } = gateway.listening;
  const { restPath, json, rpcPath, frame } = benchCall("protection-plan");
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
  let missed = false;
  for (const [protocol, load] of Object.entries(options.beside ? loads : {})) {
    await load(saturatingCallers, 3);
    const before = await countCalls(opsUrl);
    await load(saturatingCallers, 5);
    const capacity = ((await countCalls(opsUrl)).ok - before.ok) / 5;
    const perSecond = Math.max(1, Math.round(capacity * options.share));
    const quietHeaders = { authorization: `Bearer ${quiet}`, "content-type": "application/json" };
    const quietly = (seconds: number) => watch(url + restPath, quietHeaders, json, { perSecond, seconds });
    const alone = seenOf(await quietly(10));
    const limit = limitMs(alone);
    let maxBytes = 0;
    const sampling = setInterval(() => {
      maxBytes = Math.max(maxBytes, gateway.residentBytes());
    }, 100);
    const flood = load(10 * saturatingCallers, seconds).then(() => performance.now());
    await delay(1_000);
    const [all, endedAtMs] = await Promise.all([quietly(seconds + 5), flood]);
    clearInterval(sampling);
    const { errors } = seenOf(all);
    const beside = seenOf(all.filter(({ dueAtMs }) => dueAtMs < endedAtMs));
    const recoveryMs = recovery(
      all.filter(({ dueAtMs, latencyMs }) => dueAtMs + latencyMs > endedAtMs),
      limit,
      endedAtMs,
    );
    const memoryMiB = Math.round(maxBytes / 1024 ** 2);
    const problems = [
      ...(errors > 0 ? ["errors"] : []),
      ...(beside.p99Ms <= limit ? [] : ["p99"]),
      ...(memoryMiB > maxMemoryMiB ? ["memory"] : []),
      ...(recoveryMs > maxRecoveryMs ? ["recovery"] : []),
    ];
    missed ||= problems.length > 0;
    rows.push({
      flood: protocol,
      "capacity/s": Math.round(capacity),
      "asked/s": perSecond,
      errors,
      "p50, p99 ms": `${beside.p50Ms.toFixed(1)}, ${beside.p99Ms.toFixed(1)}`,
      alone: `${alone.p50Ms.toFixed(1)}, ${alone.p99Ms.toFixed(1)}`,
      "recovery, ms": Math.round(recoveryMs),
      "memory, MiB": memoryMiB,
      aim: problems.length === 0 ? "met" : `missed: ${problems.join(", ")}`,
    });
  }
  const acknowledged = (await countCalls(opsUrl)).ok;
  for (const [protocol, load] of Object.entries(options.beside ? {} : loads)) {
    const results = new Map<number, Round[]>(callers.map((count) => [count, []]));
    await load(64, 3);
    for (let round = 0; round < options.rounds; round++) {
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
  printTable(rows);
  if (options.beside) {
    const leaves = await countLeaves(join(directory, "data"));
    process.stdout.write(`${acknowledged} acknowledged, ${leaves} leaves in logs that verify\n`);
    process.exitCode = missed || leaves < acknowledged ? 1 : 0;
  }
} finally {
  await issuer.stop();
}
