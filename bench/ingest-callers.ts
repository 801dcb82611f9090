/**
 * Evidence ingest over REST on the embedded store, each answer with its full receipt: requests a second and latencies
 * at 1, 8, 64 and 256 callers, beside raw SQLite commits of as many rows in the same run; then latencies and
 * event-loop delay at half of the best rate, offered at fixed times whatever the answers do.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { benchCalls } from "./calls.ts";
import { fetchToken, startBenchIssuer, startGatewayProcess } from "./deployment.ts";
import { loadHttp1 } from "./load.ts";
import { measureRaw } from "./raw-sqlite.ts";

const loadCore = 1;
const warmUpSeconds = 2;
/** What `monitorEventLoopDelay` counts besides the delay: its own interval. */
const eventLoopIntervalMs = 10;

const call = benchCalls().find(({ name }) => name === "evidence");
if (call?.json === undefined) throw new Error("there is no evidence call");
const { json: body, restPath } = call;

/** Latencies of calls that are made at a fixed rate: one that waits behind a stall is counted with its wait. */
async function offered(
  url: string,
  headers: Record<string, string>,
  perSecond: number,
  seconds: number,
): Promise<number[]> {
  const agent = new Agent({ keepAlive: true, maxSockets: 256 });
  const latenciesMs: number[] = [];
  const pending: Promise<void>[] = [];
  const began = performance.now();
  const total = Math.floor(perSecond * seconds);
  for (let sent = 0; sent < total; ) {
    const due = Math.min(total, Math.floor(((performance.now() - began) / 1_000) * perSecond));
    for (; sent < due; sent++) {
      const dueAt = began + (sent / perSecond) * 1_000;
      pending.push(post(url, headers, agent).then(() => void latenciesMs.push(performance.now() - dueAt)));
    }
    await delay(1);
  }
  await Promise.all(pending);
  agent.destroy();
  return latenciesMs.sort((a, b) => a - b);
}

function post(url: string, headers: Record<string, string>, agent: Agent): Promise<void> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { method: "POST", headers, agent }, (response) => {
      if (response.statusCode !== 200) reject(new Error(`answered ${response.statusCode}`));
      response.resume().once("end", resolve);
    });
    sent.once("error", reject);
    sent.end(body);
  });
}

/** Since it was asked for last. */
async function eventLoopP99Ms(opsUrl: string): Promise<number> {
  const text = await (await fetch(`${opsUrl}/metrics`)).text();
  const line = text.split("\n").find((candidate) => candidate.startsWith("nodejs_eventloop_lag_p99_seconds"));
  return Number(line?.split(" ")[1] ?? Number.NaN) * 1_000 - eventLoopIntervalMs;
}

/** @param seconds of each measurement */
export async function measureCallers(seconds: number): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "bench-ingest-"));
  const issuer = await startBenchIssuer();
  try {
    const logFile = join(directory, "gateway.log");
    const gateway = await startGatewayProcess({ issuer, dataDir: directory, logFile });
    try {
      const { url, ops_url: opsUrl } = gateway.listening;
      const headers = { authorization: `Bearer ${await fetchToken(issuer)}`, "content-type": "application/json" };
      const load = { url: url + restPath, headers, body, core: loadCore, directory };
      await loadHttp1({ ...load, seconds: warmUpSeconds });
      const rows = [];
      for (const callers of [1, 8, 64, 256]) {
        const measured = await loadHttp1({ ...load, seconds, connections: callers });
        const raw = measureRaw(directory, callers, seconds * 200, 200);
        rows.push({ callers, ...measured, raw });
      }
      const half = Math.max(...rows.map(({ perSecond }) => perSecond)) / 2;
      await eventLoopP99Ms(opsUrl);
      const latenciesMs = await offered(load.url, headers, half, seconds);
      const loopP99Ms = await eventLoopP99Ms(opsUrl);
      const at = (share: number) => (latenciesMs[Math.ceil(latenciesMs.length * share) - 1] ?? Number.NaN).toFixed(1);
      const table = rows.map(({ callers, perSecond, p50Ms, p99Ms, raw }) => ({
        callers,
        "records/s": Math.round(perSecond),
        "p50 ms": p50Ms.toFixed(2),
        "p99 ms": p99Ms.toFixed(2),
        "raw rows/s": Math.round(raw),
      }));
      // biome-ignore lint/suspicious/noConsole: the table is what this program is for
      console.table(table);
      // biome-ignore lint/suspicious/noConsole: as above
      console.table([
        {
          "offered/s": Math.round(half),
          "p50 ms": at(0.5),
          "p99 ms": at(0.99),
          "event loop p99 ms": loopP99Ms.toFixed(1),
          "RSS MiB": Math.round(gateway.residentBytes() / 1024 ** 2),
        },
      ]);
    } finally {
      await gateway.stop();
    }
  } finally {
    await issuer.stop();
    rmSync(directory, { recursive: true, force: true });
  }
}
