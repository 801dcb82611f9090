/** Load generators: one for each kind of connection, and one with a fixed rate. */
import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { quantiles } from "./run.ts";

const run = promisify(execFile);

/** In bodies of turns, replaced in each request by a text that no earlier load used. */
export const numbered = "__number__";

export interface Load {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  /** Requests that are sent in turn instead of `headers` and `body`. Over HTTP/1.1 only. */
  readonly turns?: readonly Turn[];
  readonly seconds: number;
  /**
   * Connections, each with one request in flight. If absent: `concurrency` over HTTP/1.1; fewer over HTTP/2, each with
   * several streams.
   */
  readonly connections?: number;
  /** Whether refusals are measured like other answers. */
  readonly mayRefuse?: boolean;
  /** Core of the load generator. */
  readonly core: number;
  /** Folder for the files that the generators read and write. */
  readonly directory: string;
}

/** One of several POST requests to the same URL. */
export interface Turn {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface Measured {
  /** Number of answers, if it is not the rate times the requested seconds. */
  readonly count?: number;
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** Requests in flight, on both generators. */
export const concurrency = 64;
const http2Connections = 8;

/** Loads over HTTP/1.1 with `wrk`. Rejects if an answer is not 2xx. */
export async function loadHttp1(load: Load): Promise<Measured> {
  const { url, headers, body, turns, seconds, connections, mayRefuse = false, core, directory } = load;
  const script = join(directory, `load-${randomUUID()}.lua`);
  writeFileSync(script, turns === undefined ? luaScript(headers, body) : turnsScript(turns));
  const wrk = ["wrk", "--threads", "1", "--connections", `${connections ?? concurrency}`, "--duration", `${seconds}s`];
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

/** Loads over HTTP/2 with `h2load`. Rejects if an answer is not 2xx; it does not see gRPC status in trailers. */
export async function loadHttp2(load: Load): Promise<Measured> {
  const { url, headers, body, seconds, connections, mayRefuse = false, core, directory } = load;
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
    .map((line) => Number(line.split("\t")[2]) / 1000);
  return { perSecond: Number(succeeded) / seconds, ...quantiles(latenciesMs) };
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
  /** When it was due, in `performance.now()` milliseconds. */
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

/** Errors and latencies of the calls. */
export function seenOf(calls: readonly Watched[]): Seen {
  const latenciesMs = calls.flatMap(({ isOk, latencyMs }) => (isOk ? [latencyMs] : []));
  return { errors: calls.length - latenciesMs.length, ...quantiles(latenciesMs) };
}

/**
 * The p99 allowed beside a flood: twice the tenant's own without it, and 20 ms because the machine's cores are shared.
 */
export function limitMs(alone: Seen): number {
  return 2 * alone.p99Ms + 20;
}

type Headers = Readonly<Record<string, string>>;

/**
 * Posts at fixed times, whatever the answers, from this process and on its own connections.
 * @param headers of every call, or a function that makes those of each
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

/** The Lua script that makes `wrk` send one request repeatedly. */
export function luaScript(headers: Load["headers"], body: Load["body"]): string {
  const lines = Object.entries(headers).map(([name, value]) => `wrk.headers[${lua(name)}] = ${lua(value)}`);
  if (body !== undefined) lines.push('wrk.method = "POST"', `wrk.body = ${lua(Buffer.from(body).toString("latin1"))}`);
  return lines.join("\n");
}

/** A Lua string of the given bytes, in decimal escapes. */
function lua(text: string): string {
  return `"${[...Buffer.from(text, "latin1")].map((byte) => `\\${String(byte).padStart(3, "0")}`).join("")}"`;
}

/** Digits of a number in requests that are sent in turn. */
const digits = 9;

/** The Lua script that makes `wrk` send these requests in turn. */
function turnsScript(turns: readonly Turn[]): string {
  const load = randomUUID().slice(0, 8);
  // As long as its replacement, so that requests can be formatted once.
  const mark = `${load}-${"#".repeat(digits)}`;
  const requests = turns.map(({ headers, body }) => {
    const fields = Object.entries(headers).map(([name, value]) => `[${lua(name)}] = ${lua(value)}`);
    const text = body.replaceAll(numbered, mark);
    return `  { { ${fields.join(", ")} }, ${lua(Buffer.from(text).toString("latin1"))} },`;
  });
  return [
    "local turns = {",
    ...requests,
    "}",
    "local function split(text)",
    "  local parts = {}",
    "  local from = 1",
    `  for first, last in function() return text:find(${lua(mark)}, from, true) end do`,
    "    parts[#parts + 1] = text:sub(from, first - 1)",
    "    from = last + 1",
    "  end",
    "  parts[#parts + 1] = text:sub(from)",
    "  return parts",
    "end",
    "function init()",
    '  for at, turn in ipairs(turns) do turns[at] = split(wrk.format("POST", nil, turn[1], turn[2])) end',
    "end",
    "local number = 0",
    "function request()",
    "  local parts = turns[number % #turns + 1]",
    "  number = number + 1",
    "  if #parts == 1 then return parts[1] end",
    `  return table.concat(parts, string.format("${load}-%0${digits}d", number))`,
    "end",
  ].join("\n");
}
