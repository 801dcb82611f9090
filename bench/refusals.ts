/**
 * Processor time of the gateway for the request body that costs most to refuse, beside a good request of the same size,
 * by route, protocol and size. Bodies are tried in this process first, and the worst of each kind are sent.
 *
 * `node bench/refusals.ts [size in KiB…]`, default 64 256 12288.
 */
import { mkdtempSync, rmSync } from "node:fs";
import http from "node:http";
import http2 from "node:http2";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { encodeFrame } from "../src/transport/grpc/frame.ts";
import { cpuMs, refusalOf, type Spelling } from "../test/harness/body-readers.ts";
import { fullRequest, spellings } from "../test/harness/full-bodies.ts";
import { type HostileBody, hostileBinary, hostileJson } from "../test/harness/hostile-bodies.ts";
import { type WireMethod, wireMethods } from "../test/harness/methods.ts";
import { fetchToken, type GatewayProcess, startBenchIssuer, startGatewayProcess } from "./deployment.ts";

const sizesKib = process.argv.length > 2 ? process.argv.slice(2).map(Number) : [64, 256, 12_288];
const artifactRoute = "/v1/sdk/artifact-register";
/** Largest body of the other routes. */
const plainLimitBytes = 262_144;
/** Of each kind the gateway is sent so many, each until so much processor time is used. */
const candidates = 2;
const measuredCpuMs = 250;
const maxTurns = 400;

interface Protocol {
  readonly name: string;
  readonly spelling: Spelling;
  readonly send: (url: string, method: WireMethod, token: string, body: Buffer) => Promise<boolean>;
}

const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });

/** Sends over HTTP/1.1. Resolves with whether the request was good. */
function overHttp1(contentType: string, pathOf: (method: WireMethod) => string, isFramed = false): Protocol["send"] {
  return (url, method, token, message) =>
    new Promise((resolve, reject) => {
      const body = isFramed ? encodeFrame(message) : message;
      const request = http.request(url + pathOf(method), {
        agent,
        method: "POST",
        headers: { authorization: `Bearer ${token}`, "content-type": contentType, "content-length": body.length },
      });
      request.on("error", reject).on("response", (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("end", () => {
          const isRefusedInTrailers = isFramed && !Buffer.concat(chunks).includes("grpc-status: 0");
          resolve(response.statusCode === 200 && !isRefusedInTrailers);
        });
      });
      request.end(body);
    });
}

let session: http2.ClientHttp2Session | undefined;

const overGrpc: Protocol["send"] = (url, method, token, message) =>
  new Promise((resolve, reject) => {
    if (session === undefined || session.closed || session.destroyed)
      session = http2.connect(url, { maxSessionMemory: 256 });
    const stream = session.request({
      ":method": "POST",
      ":path": method.rpcPath,
      "content-type": "application/grpc",
      te: "trailers",
      authorization: `Bearer ${token}`,
    });
    let status: unknown;
    stream.on("response", (headers) => {
      status = headers["grpc-status"];
    });
    stream.on("trailers", (trailers) => {
      status = trailers["grpc-status"];
    });
    stream.on("error", reject).on("close", () => resolve(status === "0"));
    stream.resume();
    stream.end(encodeFrame(message));
  });

const onRest = ({ restPath }: WireMethod) => restPath;
const onRpc = ({ rpcPath }: WireMethod) => rpcPath;
const protocols: readonly Protocol[] = [
  { name: "REST", spelling: "rest", send: overHttp1("application/json", onRest) },
  { name: "Connect, JSON", spelling: "canonical", send: overHttp1("application/json", onRpc) },
  { name: "Connect, binary", spelling: "binary", send: overHttp1("application/proto", onRpc) },
  { name: "gRPC-Web", spelling: "binary", send: overHttp1("application/grpc-web+proto", onRpc, true) },
  { name: "gRPC", spelling: "binary", send: overGrpc },
];

/** The bodies that cost most in this process, worst first. */
function worstOf(method: WireMethod, spelling: Spelling, sizeBytes: number): readonly HostileBody[] {
  const { input } = method.desc;
  const all = spelling === "binary" ? hostileBinary(input) : hostileJson(input, spelling);
  const costs = all.map((hostile) => {
    const body = hostile.bytes(sizeBytes);
    const turns = sizeBytes > 1024 * 1024 ? 2 : 3;
    let isGood = false;
    const costMs = Array.from({ length: turns }, () =>
      cpuMs(() => {
        isGood = refusalOf(spelling, method, body) === undefined;
      }),
    );
    return { hostile, costMs: isGood ? 0 : Math.min(...costMs) };
  });
  return costs
    .sort((a, b) => b.costMs - a.costMs)
    .slice(0, candidates)
    .map(({ hostile }) => hostile);
}

/** Processor time of the gateway for one body, in microseconds. */
async function cost(gateway: GatewayProcess, isGood: boolean, send: () => Promise<boolean>): Promise<number> {
  for (let i = 0; i < 8; i++) if ((await send()) !== isGood) throw new Error(`answered ${!isGood}`);
  const before = gateway.cpuMicros();
  let turns = 0;
  for (; turns < maxTurns && gateway.cpuMicros() - before < measuredCpuMs * 1000; turns++) await send();
  return (gateway.cpuMicros() - before) / turns;
}

const dataDir = mkdtempSync(join(tmpdir(), "svc-refusals-"));
const issuer = await startBenchIssuer();
const gateway = await startGatewayProcess({ issuer, dataDir, logFile: join(dataDir, "log") });
try {
  const token = await fetchToken(issuer);
  const { url } = gateway.listening;
  process.stdout.write(
    "| route | protocol | KiB | good, µs | refused, µs | ratio | body |\n|---|---|---|---|---|---|---|\n",
  );
  let worst = 0;
  for (const sizeKib of sizesKib) {
    const routes = wireMethods.filter(
      ({ verb, restPath }) => verb === "POST" && (restPath === artifactRoute || sizeKib * 1024 <= plainLimitBytes),
    );
    for (const method of routes) {
      const found = new Map<Spelling, readonly HostileBody[]>();
      for (const { name, spelling, send } of protocols) {
        const sizeBytes = sizeKib * 1024;
        const bodies = found.get(spelling) ?? worstOf(method, spelling, sizeBytes);
        found.set(spelling, bodies);
        // Trying took long, and nothing was heard meanwhile of connections that were closed for being idle.
        agent.destroy();
        session?.destroy();
        const good = spellings[spelling](method, fullRequest(method, sizeBytes));
        const goodMicros = await cost(gateway, true, () => send(url, method, token, good));
        for (const { family, bytes } of bodies) {
          const body = bytes(sizeBytes);
          const micros = await cost(gateway, false, () => send(url, method, token, body));
          worst = Math.max(worst, micros / goodMicros);
          const row = [
            method.restPath.slice("/v1/sdk/".length),
            name,
            sizeKib,
            Math.round(goodMicros),
            Math.round(micros),
            (micros / goodMicros).toFixed(1),
            family,
          ];
          process.stdout.write(`| ${row.join(" | ")} |\n`);
        }
      }
    }
  }
  process.stdout.write(`\nWorst ratio: ${worst.toFixed(1)}\n`);
} finally {
  agent.destroy();
  session?.destroy();
  await gateway.stop();
  await issuer.stop();
  rmSync(dataDir, { recursive: true });
}
