/**
 * Invalid and nearly valid bytes on every port, over HTTP/1.1, h2c and TLS, on all routes of the service and the
 * operator listener, from callers that disconnect at any moment, while valid calls run beside them and must be
 * answered. Fails if a gateway ends, logs an error, leaves a valid call unanswered, or grows.
 */
import { fork } from "node:child_process";
import { openSync, readSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { type FuzzCounts, type FuzzOptions, fuzzConnection, noCounts } from "../test/harness/fuzz/connection.ts";
import { fetchToken, type GatewayProcess, startBenchIssuer, startGatewayProcess, statusOf } from "./deployment.ts";

export interface FuzzRun {
  readonly seed: number;
  /** Number of the first connection. */
  readonly from: number;
  readonly workers: number;
  /** The run ends when both are reached, or when the time is up. */
  readonly connections: number;
  /** Requests and frames together. */
  readonly messages: number;
  readonly minutes: number;
  readonly onProgress: (counts: FuzzCounts, residentMiB: readonly number[]) => void;
}

export interface FuzzReport {
  readonly counts: FuzzCounts;
  readonly seconds: number;
  /** Numbers of the connections: from the first to this one, inclusive. */
  readonly upTo: number;
  /** Answered valid calls, and the longest time that one took, in milliseconds. */
  readonly answered: number;
  readonly slowestMs: number;
  /** Resident memory of each gateway, in MiB, one value every few seconds. */
  readonly residentMiB: readonly (readonly number[])[];
  readonly problems: readonly string[];
}

const concurrencyEach = 24;
const pollIntervalMs = 2_000;
const probeEveryMs = 100;
/** On a machine with no other load, a valid call may wait, but not longer than this. */
const hangMs = 15_000;
/** Growth between the middle and the end of a run that is more than the heap's own noise, which is a few dozen MiB. */
const maxGrowthMiB = 96;
/**
 * Garbage of fuzzed requests remains until the engine collects it, which it does late on a machine with much memory: a
 * forced collection reduced 530 MiB to 330. Leaks show in the growth of the minimum.
 */
const maxResidentMiB = 800;
const certificates = join(import.meta.dirname, "../test/unit/config/fixtures");

/** Runs it. The gateways' output stays in the folder that a problem names. */
export async function runFuzz(run: FuzzRun): Promise<FuzzReport> {
  const folder = await mkdtemp(join(tmpdir(), "svc-fuzz-"));
  const issuer = await startBenchIssuer();
  const gateways: GatewayProcess[] = [];
  const problems: string[] = [];
  try {
    const [cert, key] = [join(certificates, "server.crt.pem"), join(certificates, "server.key.pem")];
    const tls = { SVC_TLS_CERT: cert, SVC_TLS_KEY: key, SVC_OPS_TLS_CERT: cert, SVC_OPS_TLS_KEY: key };
    const folders = { [join(folder, "plain")]: {}, [join(folder, "tls")]: tls };
    for (const [dataDir, env] of Object.entries(folders)) {
      const open = { SVC_BULK: "on", SVC_AUTHZEN: "on", SVC_OPENTDF: "on", ...env };
      gateways.push(await startGatewayProcess({ issuer, dataDir, env: open }));
    }
    const [plain, secured] = gateways.map(({ listening }) => listening) as [Addresses, Addresses];
    const authorization = `Bearer ${await fetchToken(issuer)}`;
    const share: Omit<FuzzShare, "first" | "step"> = {
      seed: run.seed,
      authorization,
      concurrency: concurrencyEach,
      ports: {
        service: portOf(plain.url),
        operator: portOf(plain.ops_url),
        tlsService: portOf(secured.url),
        tlsOperator: portOf(secured.ops_url),
      },
    };
    const probe = startProbe([plain, secured], authorization, problems);
    const fuzzers = Array.from({ length: run.workers }, (_, i) =>
      startFuzzer({ ...share, first: run.from + i, step: run.workers }, problems),
    );
    const residentMiB: number[][] = gateways.map(() => []);
    const total = () => sum(fuzzers.map(({ told }) => told.counts));
    const complaints = Object.keys(folders).map((dataDir) => readComplaints(join(dataDir, "gateway.log")));
    const startedAt = performance.now();
    while (problems.length === 0 && performance.now() - startedAt < run.minutes * 60_000) {
      await delay(pollIntervalMs);
      const counts = total();
      problems.push(...lookAt(gateways, residentMiB), ...complaints.flatMap((read) => read()));
      run.onProgress(
        counts,
        residentMiB.map((values) => values.at(-1) ?? 0),
      );
      if (counts.connections >= run.connections && counts.requests + counts.frames >= run.messages) break;
    }
    const seconds = (performance.now() - startedAt) / 1_000;
    await Promise.all(fuzzers.map(({ stop }) => stop()));
    const { answered, slowestMs } = await probe.stop();
    for (const gateway of gateways) {
      const code = await gateway.stop();
      // 1: a caller that had disconnected without closing was cut off.
      if (code !== 0 && code !== 1) problems.push(`a gateway that was asked to stop ended with ${code}`);
    }
    problems.push(...complaints.flatMap((read) => read()), ...residentMiB.flatMap(growthOf));
    if (answered === 0) problems.push("no good call was answered");
    const upTo = Math.max(...fuzzers.map(({ told }) => told.next)) - 1;
    return { counts: total(), seconds, upTo, answered, slowestMs, residentMiB, problems: [...new Set(problems)] };
  } finally {
    for (const gateway of gateways) await gateway.stop("SIGKILL");
    await issuer.stop();
    if (problems.length === 0) await rm(folder, { recursive: true });
    else process.stdout.write(`What the gateways wrote is in ${folder}\n`);
  }
}

type Addresses = GatewayProcess["listening"];

function portOf(url: string): number {
  return Number(new URL(url).port);
}

/** What one process of the fuzzer sends. */
interface FuzzShare extends FuzzOptions {
  /** Numbers of its connections: the first one, and the step to the next. */
  readonly first: number;
  readonly step: number;
  /** Concurrent connections. */
  readonly concurrency: number;
}

interface Fuzzer {
  /** Its latest counts. */
  readonly told: { counts: FuzzCounts; next: number };
  stop(): Promise<void>;
}

/** A process, since a thread whose sockets Node has lost never ends. */
function startFuzzer(share: FuzzShare, problems: string[]): Fuzzer {
  const child = fork(import.meta.filename, [JSON.stringify(share)]);
  const told = { counts: noCounts(), next: share.first };
  let isStopping = false;
  const ended = new Promise<void>((resolve) => {
    child.on("message", ({ isLast, ...message }: Fuzzer["told"] & { readonly isLast: boolean }) => {
      Object.assign(told, message);
      if (isLast) child.kill("SIGKILL");
    });
    child.once("exit", (code) => {
      if (!isStopping) problems.push(`the fuzzer itself ended with ${code}`);
      resolve();
    });
  });
  return {
    told,
    stop: () => {
      isStopping = true;
      if (child.connected) child.send("stop");
      return ended;
    },
  };
}

/** Valid calls on every listener in turn, each on a new connection. */
function startProbe(all: readonly Addresses[], authorization: string, problems: string[]) {
  const targets = all.flatMap(({ url, ops_url }) => [`${url}/v1/sdk/whoami`, `${ops_url}/livez`]);
  let stopped = false;
  let answered = 0;
  let slowestMs = 0;
  const running = (async () => {
    while (!stopped) {
      for (const target of targets) {
        const startedAt = performance.now();
        const status = await statusOf(target, hangMs, { authorization });
        slowestMs = Math.max(slowestMs, performance.now() - startedAt);
        if (status === 200) answered += 1;
        else problems.push(`a good call to ${new URL(target).pathname} was answered with ${status}`);
      }
      await delay(probeEveryMs);
    }
  })();
  return {
    stop: async () => {
      stopped = true;
      await running;
      return { answered, slowestMs };
    },
  };
}

/** Records the gateways' memory; reports a gateway that has ended or uses too much. */
function lookAt(gateways: readonly GatewayProcess[], residentMiB: number[][]): string[] {
  return gateways.flatMap((gateway, i) => {
    try {
      const mebibytes = Math.round(gateway.residentBytes() / 2 ** 20);
      residentMiB[i]?.push(mebibytes);
      return mebibytes > maxResidentMiB ? [`a gateway holds ${mebibytes} MiB`] : [];
    } catch {
      return ["a gateway has ended"];
    }
  });
}

/**
 * Reads problems from a log since the last call: lines of level error, and lines that are not JSON of the logger. The
 * log has a line for each of millions of requests.
 */
function readComplaints(path: string): () => string[] {
  const file = openSync(path, "r");
  const chunk = Buffer.alloc(1024 * 1024);
  let rest = "";
  return () => {
    const complaints: string[] = [];
    for (let size = readSync(file, chunk); size > 0; size = readSync(file, chunk)) {
      const lines = (rest + chunk.toString("latin1", 0, size)).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        if (line.startsWith('{"level":') && !/^\{"level":"(error|fatal)"/.test(line)) continue;
        complaints.push(`the log says: ${line.slice(0, 1_500)}`);
      }
    }
    return complaints;
  };
}

/** Compares the minimum of the last quarter with that of the second, because peaks are not growth. */
function growthOf(values: readonly number[]): string[] {
  const quarter = Math.floor(values.length / 4);
  if (quarter < 5) return [];
  const before = Math.min(...values.slice(quarter, 2 * quarter));
  const after = Math.min(...values.slice(-quarter));
  return after - before > maxGrowthMiB ? [`memory grew from ${before} to ${after} MiB`] : [];
}

function sum(all: readonly FuzzCounts[]): FuzzCounts {
  const total = noCounts();
  for (const counts of all) for (const name of Object.keys(total) as (keyof FuzzCounts)[]) total[name] += counts[name];
  return total;
}

/** A process of the fuzzer: its share of the connections, `concurrency` at a time. Sends its counts twice a second. */
async function fuzzShare(share: FuzzShare): Promise<void> {
  const counts = noCounts();
  let next = share.first;
  const tell = (isLast: boolean) => process.send?.({ counts, next, isLast });
  setInterval(tell, 500, false);
  let stopped = false;
  process.once("message", () => {
    stopped = true;
  });
  const one = async () => {
    while (!stopped) {
      const number = next;
      next += share.step;
      await fuzzConnection(number, share, counts);
    }
  };
  await Promise.all(Array.from({ length: share.concurrency }, one));
  tell(true);
}

if (import.meta.main) await fuzzShare(JSON.parse(process.argv[2] ?? ""));
