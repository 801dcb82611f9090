/**
 * Effect on another tenant while one floods every route and listener in turn: error rate and latencies of recorded
 * plans at a fixed rate, beside those of the same tenant without the flood, and the gateway's memory.
 *
 * The server, with all its threads, is pinned to one core and the floods to another. The floods have a lower priority
 * there than this process, which is the quiet tenant, because its own waits for a core would count as the server's.
 * Callers that only hold connections use hardly any processor time and run in this process; beside them, each call of
 * the quiet tenant has a token that the gateway has not seen yet.
 *
 * `node bench/flood.ts [--seconds 10] [--connections 256] [--only "evidence"]`. Exits with 1 if an aim is missed.
 */
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import http2 from "node:http2";
import net from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { startIssuer } from "../dev/issuer.ts";
import { sampleCalls } from "../dev/requests.ts";
import { benchCall } from "./calls.ts";
import { fetchToken, startGatewayProcess } from "./deployment.ts";
import { limitMs, luaScript, seenOf, watch } from "./load.ts";
import { printTable, readOptions, temporaryFolder } from "./run.ts";

const { seconds, connections, only } = readOptions({ seconds: 10, connections: 256, only: "" });
const serverCore = 0;
const loadCore = 1;
const perSecond = 20;
const maxMemoryMiB = 600;
const settleMs = 1_000;

/** One kind of request, sent repeatedly on each of many connections as soon as it is answered. */
interface Flood {
  readonly name: string;
  readonly url: string;
  readonly http2?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
}

/** Starts a generator, which runs until the returned function is called. */
function start({ url, http2 = false, headers = {}, body }: Flood, directory: string): () => Promise<void> {
  const duration = String(seconds + 60);
  const bodyFile = join(directory, "flood.body");
  if (body !== undefined) writeFileSync(bodyFile, body);
  const script = join(directory, "flood.lua");
  writeFileSync(script, luaScript(headers, body));
  const generator = http2
    ? [
        ...["h2load", "--clients", "16", "--max-concurrent-streams", String(connections / 16), "--duration", duration],
        ...(body === undefined ? [] : ["--data", bodyFile]),
        ...Object.entries(headers).flatMap(([name, value]) => ["--header", `${name}: ${value}`]),
      ]
    : ["wrk", "--threads", "1", "--connections", String(connections), "--duration", `${duration}s`, "--script", script];
  const child = spawn("taskset", ["--cpu-list", String(loadCore), "nice", "-n", "10", ...generator, url], {
    stdio: "ignore",
  });
  const ended = once(child, "exit");
  return async () => {
    child.kill("SIGKILL");
    await ended;
  };
}

/** Floods by one tenant, or by a caller without a valid token. */
function floods(url: string, opsUrl: string, hot: string): readonly Flood[] {
  const authorization = `Bearer ${hot}`;
  const json = { "content-type": "application/json" };
  const { restPath, rpcPath, json: restJson, connectJson, frame } = benchCall("protection-plan");
  // The form of the other protocol, which is refused as a whole.
  const refused = { REST: connectJson, Connect: restJson };
  const grpc = { "content-type": "application/grpc", te: "trailers" };
  const web = { "content-type": "application/grpc-web+proto" };
  const wrongTokens = {
    "no token": undefined,
    "a malformed token": "Bearer malformed",
    "a forged token": `${authorization.slice(0, -8)}AAAAAAAA`,
  };
  return [
    ...sampleCalls().map(({ route, body }) => ({
      name: `REST ${route.slice("/v1/sdk/".length)}`,
      url: url + route,
      headers: { authorization, ...(body !== undefined && json) },
      ...(body !== undefined && { body: Buffer.from(JSON.stringify(body)) }),
    })),
    { name: "Connect plan", url: url + rpcPath, headers: { authorization, ...json }, body: connectJson },
    { name: "Connect, refused bodies", url: url + rpcPath, headers: { authorization, ...json }, body: refused.Connect },
    { name: "REST, refused bodies", url: url + restPath, headers: { authorization, ...json }, body: refused.REST },
    { name: "gRPC-Web plan", url: url + rpcPath, headers: { authorization, ...web }, body: frame },
    { name: "gRPC plan", http2: true, url: url + rpcPath, headers: { authorization, ...grpc }, body: frame },
    ...Object.entries(wrongTokens).flatMap(([name, shown]) => {
      const header = shown === undefined ? {} : { authorization: shown };
      return [
        { name: `REST, ${name}`, url: url + restPath, headers: { ...header, ...json }, body: restJson },
        { name: `gRPC, ${name}`, http2: true, url: url + rpcPath, headers: { ...header, ...grpc }, body: frame },
      ];
    }),
    { name: "no such path", url: `${url}/nothing/here` },
    {
      name: "gRPC health",
      http2: true,
      url: `${url}/grpc.health.v1.Health/Check`,
      headers: grpc,
      body: new Uint8Array(5),
    },
    { name: "operator /livez", url: `${opsUrl}/livez` },
    { name: "operator /readyz", url: `${opsUrl}/readyz` },
    { name: "operator /metrics", url: `${opsUrl}/metrics` },
    { name: "operator search", url: `${opsUrl}/ledger/search?limit=100`, headers: { authorization } },
    { name: "operator search, no token", url: `${opsUrl}/ledger/search` },
  ].filter(({ name }) => name.includes(only));
}

/** What callers can hold with few requests. */
function holders(url: string, hot: string, body: Uint8Array): readonly { name: string; hold: Holder }[] {
  return [
    { name: "held: streams with a window of 0", hold: unreadStreams(url, 20, "/") },
    { name: "held: pipelined, not read", hold: unreadConnections(url, 24, "/openapi.json") },
    { name: "held: watches", hold: unreadStreams(url, 16, "/grpc.health.v1.Health/Watc%68", true) },
    { name: "held: clients that vanish", hold: vanishing(url, 8, "/v1/sdk/protection-plan", hot, body) },
  ].filter(({ name }) => name.includes(only));
}

/** Another address than the quiet tenant's: callers of one address are queued together. */
const localAddress = "127.0.0.2";

/**
 * Callers that do not read, or disconnect, and begin again when they are cut off. Returns the function that stops them.
 */
type Holder = () => () => void;

/** Keeps `count` of something open: `open` is called again whenever one of them has closed. */
function keep(count: number, open: (onClosed: () => void) => { destroy(): unknown }): () => void {
  const opened = new Set<{ destroy(): unknown }>();
  let isOver = false;
  const one = () => {
    if (isOver) return;
    const closable = open(() => {
      opened.delete(closable);
      setTimeout(one, 10);
    });
    opened.add(closable);
  };
  for (let i = 0; i < count; i++) one();
  return () => {
    isOver = true;
    for (const closable of opened) closable.destroy();
  };
}

/** Streams of one HTTP/2 connection whose answers have a flow-control window of 0. */
function unreadStreams(url: string, count: number, path: string, watches = false): Holder {
  return () =>
    keep(1, (onClosed) => {
      const session = http2.connect(url, {
        localAddress,
        settings: { initialWindowSize: 0 },
      } as http2.ClientSessionOptions);
      session.on("error", () => {}).once("close", onClosed);
      const method = watches ? "POST" : "GET";
      const headers = watches ? { "content-type": "application/grpc", te: "trailers" } : {};
      keep(count, (onStreamClosed) => {
        const stream = session.request({ ":method": method, ":path": path, ...headers }, { endStream: !watches });
        stream.on("error", () => {}).once("close", () => !session.destroyed && onStreamClosed());
        if (watches) stream.end(Buffer.alloc(5));
        return stream;
      });
      return session;
    });
}

/** Connections of HTTP/1.1 on which many requests are sent at once and no answer is read. */
function unreadConnections(url: string, count: number, path: string): Holder {
  const { hostname, port } = new URL(url);
  return () =>
    keep(count, (onClosed) => {
      const socket = net.connect({ host: hostname, port: Number(port), localAddress }).pause();
      socket.on("error", () => {}).once("close", onClosed);
      socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`.repeat(200));
      return socket;
    });
}

/** HTTP/2 clients with a valid token that disconnect in the middle of a body, `count` at a time. */
function vanishing(url: string, count: number, path: string, token: string, body: Uint8Array): Holder {
  return () =>
    keep(count, (onClosed) => {
      const session = http2.connect(url, { localAddress } as http2.ClientSessionOptions);
      session.on("error", () => {}).once("close", onClosed);
      const headers = { ":method": "POST", ":path": path, authorization: `Bearer ${token}`, expect: "100-continue" };
      const stream = session.request({ ...headers, "content-type": "application/json" }, { endStream: false });
      stream.on("error", () => {}).once("close", () => session.destroy());
      stream.once("continue", () => stream.write(body.subarray(0, body.length / 2), () => session.destroy()));
      return session;
    });
}

using folder = temporaryFolder("flood");
const directory = folder.path;
const client = (tenantId: string) => ({
  ...{ clientId: tenantId, clientSecret: randomUUID(), tenantId, principalId: tenantId },
  scopes: ["platform-api.access", "policy.read", "keys.use", "artifacts.write", "evidence.write", "ledger.search"],
});
const issuer = await startIssuer({ tokenLifetimeSeconds: 86_400, clients: [client("quiet"), client("hot")] });
let missed = 0;
try {
  const [quiet, hot] = [await fetchToken(issuer, "quiet"), await fetchToken(issuer, "hot")];
  const gateway = await startGatewayProcess({ issuer, dataDir: join(directory, "data"), core: serverCore });
  const { url, ops_url: opsUrl } = gateway.listening;
  const { restPath, json: body } = benchCall("protection-plan");
  const headersOf = (token: string) => ({ authorization: `Bearer ${token}`, "content-type": "application/json" });
  const quietly = async (tokens = [quiet]) => {
    const headers = (call: number) => headersOf(tokens[call % tokens.length] as string);
    return seenOf(await watch(url + restPath, headers, body, { perSecond, seconds }));
  };
  const freshTokens = () => Promise.all(Array.from({ length: perSecond * seconds }, () => fetchToken(issuer, "quiet")));
  await quietly();
  let maxBytes = 0;
  const sampling = setInterval(() => {
    maxBytes = Math.max(maxBytes, gateway.residentBytes());
  }, 100);
  const rows: Record<string, string | number>[] = [];
  const cases = [
    ...floods(url, opsUrl, hot).map((flood) => ({
      name: flood.name,
      begin: () => start(flood, directory),
      tokens: undefined,
    })),
    ...holders(url, hot, body).map(({ name, hold }) => ({ name, begin: hold, tokens: freshTokens })),
  ];
  for (const { name, begin, tokens } of cases) {
    const alone = await quietly(await tokens?.());
    const fresh = await tokens?.();
    maxBytes = 0;
    const stop = begin();
    await delay(settleMs);
    const beside = await quietly(fresh);
    await stop();
    const memoryMiB = Math.round(maxBytes / 1024 ** 2);
    const isMissed = beside.errors > 0 || !(beside.p99Ms <= limitMs(alone)) || memoryMiB > maxMemoryMiB;
    if (isMissed) missed += 1;
    rows.push({
      flood: name,
      errors: beside.errors,
      "p50 ms": beside.p50Ms.toFixed(1),
      "p99 ms": beside.p99Ms.toFixed(1),
      "alone: p50": alone.p50Ms.toFixed(1),
      p99: alone.p99Ms.toFixed(1),
      "most memory, MiB": memoryMiB,
      aim: isMissed ? `missed (${limitMs(alone).toFixed(0)} ms)` : "met",
    });
  }
  clearInterval(sampling);
  await gateway.stop();
  printTable(rows);
} finally {
  await issuer.stop();
}
process.exitCode = missed === 0 ? 0 : 1;
