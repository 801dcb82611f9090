/** Load generators, one for each kind of connection and one that keeps to a rate, and what they measured. */
import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { luaScript, turnsScript } from "./load-script.ts";

const run = promisify(execFile);

/** One kind of request, sent over and over. */
export interface Load {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** POST with this body; GET where absent. */
  readonly body?: Uint8Array;
  /** Text in the body that stands for something of each request's own, which no earlier load had. Over HTTP/1.1 only. */
  readonly numbered?: string;
  /** Tokens that requests carry in turn, in place of an authorization header of their own. Over HTTP/1.1 only. */
  readonly tokens?: readonly string[];
  /** Requests that are sent in turn, in place of `headers` and `body`; `numbered` counts here too. Over HTTP/1.1 only. */
  readonly turns?: readonly Turn[];
  readonly seconds: number;
  /**
   * Connections, each with one request in flight at any moment. Where absent `concurrency` of them over HTTP/1.1; over
   * HTTP/2 fewer, each with several streams.
   */
  readonly connections?: number;
  /** Refusals are measured as any answer. */
  readonly mayRefuse?: boolean;
  /** Core of the load generator. */
  readonly core: number;
  /** Folder for the files that the generators read and write. */
  readonly directory: string;
}

/** One of several requests to the same URL, a POST. */
export interface Turn {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface Measured {
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** Requests that are in flight at any moment, on both generators. */
export const concurrency = 64;
const http2Connections = 8;

/** Loads over HTTP/1.1 with `wrk`. Rejects where an answer is not 2xx. */
export async function loadHttp1({
  url,
  headers,
  body,
  numbered,
  tokens,
  turns,
  seconds,
  connections,
  mayRefuse = false,
  core,
  directory,
}: Load): Promise<Measured> {
  const script = join(directory, `load-${randomUUID()}.lua`);
  writeFileSync(
    script,
    turns === undefined ? luaScript(headers, body, numbered, tokens) : turnsScript(turns, numbered),
  );
  const wrk = [
    "wrk",
    "--threads",
    "1",
    "--connections",
    String(connections ?? concurrency),
    "--duration",
    `${seconds}s`,
  ];
  const { stdout } = await pinned(core, [...wrk, "--latency", "--script", script, url]);
  if (!mayRefuse && /Non-2xx|Socket errors/.test(stdout)) throw new Error(`wrk on ${url}:\n${stdout}`);
  return {
    perSecond: Number(match(stdout, /Requests\/sec:\s+([\d.]+)/)[1]),
    p50Ms: milliseconds(match(stdout, /^\s+50%\s+([\d.]+)(us|ms|s)\s*$/m)),
    p99Ms: milliseconds(match(stdout, /^\s+99%\s+([\d.]+)(us|ms|s)\s*$/m)),
  };
}

function milliseconds([, value, unit]: RegExpExecArray): number {
  return Number(value) * ({ us: 0.001, ms: 1, s: 1000 }[unit as string] as number);
}

/** Loads over HTTP/2 with `h2load`. Rejects where an answer is not 2xx; what gRPC says in trailers it does not see. */
export async function loadHttp2({
  url,
  headers,
  body,
  seconds,
  connections,
  mayRefuse = false,
  core,
  directory,
}: Load): Promise<Measured> {
  const log = join(directory, "h2load.log");
  const bodyFile = join(directory, "h2load.body");
  writeFileSync(log, "");
  if (body !== undefined) writeFileSync(bodyFile, body);
  const { stdout } = await pinned(core, [
    ...["h2load", "--clients", String(connections ?? http2Connections), "--duration", String(seconds)],
    ...["--max-concurrent-streams", connections === undefined ? String(concurrency / http2Connections) : "1"],
    ...["--log-file", log, ...(body === undefined ? [] : ["--data", bodyFile])],
    ...Object.entries(headers).flatMap(([name, value]) => ["--header", `${name}: ${value}`]),
    url,
  ]);
  const [, succeeded, failed] = match(stdout, /(\d+) succeeded, (\d+) failed/);
  if (!mayRefuse && (Number(failed) > 0 || Number(succeeded) === 0)) throw new Error(`h2load on ${url}:\n${stdout}`);
  const latenciesMs = readFileSync(log, "utf8")
    .trim()
    .split("\n")
    .map((line) => Number(line.split("\t")[2]) / 1000)
    .sort((a, b) => a - b);
  const at = (share: number) => latenciesMs[Math.ceil(latenciesMs.length * share) - 1] ?? Number.NaN;
  return { perSecond: Number(succeeded) / seconds, p50Ms: at(0.5), p99Ms: at(0.99) };
}

function pinned(core: number, command: readonly string[]): Promise<{ stdout: string }> {
  return run("taskset", ["--cpu-list", String(core), ...command]);
}

function match(text: string, pattern: RegExp): RegExpExecArray {
  const found = pattern.exec(text);
  if (found === null) throw new Error(`the load generator said something else:\n${text}`);
  return found;
}

/** One call of those that were made at fixed times. */
export interface Watched {
  /** When it was due, as `performance.now()` says it. */
  readonly dueAtMs: number;
  readonly latencyMs: number;
  /** Whether it was answered with 200. */
  readonly isOk: boolean;
}

export interface Seen {
  readonly errors: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** What those who made the calls saw. */
export function seenOf(calls: readonly Watched[]): Seen {
  const latenciesMs = calls.flatMap(({ isOk, latencyMs }) => (isOk ? [latencyMs] : [])).sort((a, b) => a - b);
  const at = (share: number) => latenciesMs[Math.ceil(latenciesMs.length * share) - 1] ?? Number.NaN;
  return { errors: calls.length - latenciesMs.length, p50Ms: at(0.5), p99Ms: at(0.99) };
}

type Headers = Readonly<Record<string, string>>;

/**
 * Posts at fixed times, whatever the answers do, from this process and on connections of its own.
 * @param headers of every call, or what makes those of each
 */
export async function watch(
  url: string,
  headers: Headers | ((call: number) => Headers),
  body: Uint8Array,
  { perSecond, seconds }: { readonly perSecond: number; readonly seconds: number },
): Promise<readonly Watched[]> {
  const agent = new Agent({ keepAlive: true, maxSockets: 256 });
  const ask = (dueAtMs: number, call: number) =>
    new Promise<Watched>((resolve) => {
      const end = (isOk: boolean) => resolve({ dueAtMs, latencyMs: performance.now() - dueAtMs, isOk });
      const own = typeof headers === "function" ? headers(call) : headers;
      const sent = request(url, { method: "POST", headers: own, agent }, (response) => {
        response.resume();
        response.once("end", () => end(response.statusCode === 200));
        response.once("error", () => end(false));
      });
      sent.once("error", () => end(false));
      sent.end(body);
    });
  const began = performance.now();
  const pending: Promise<Watched>[] = [];
  for (let call = 0; call < perSecond * seconds; call++) {
    const dueAt = began + (call / perSecond) * 1_000;
    const waitMs = dueAt - performance.now();
    if (waitMs > 0) await delay(waitMs);
    pending.push(ask(Math.max(dueAt, performance.now()), call));
  }
  const calls = await Promise.all(pending);
  agent.destroy();
  return calls;
}
