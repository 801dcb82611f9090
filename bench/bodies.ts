/**
 * Memory of the gateway under floods of large request bodies, and what each flood was answered:
 * `node bench/bodies.ts`. The process may be limited from outside, as a container is.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import http from "node:http";
import http2 from "node:http2";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { encodeFrame } from "../src/transport/grpc/frame.ts";
import { fullRequest, spellings } from "../test/harness/full-bodies.ts";
import { methodOn } from "../test/harness/methods.ts";
import { fetchToken, startBenchIssuer, startGatewayProcess } from "./deployment.ts";

const register = methodOn("/v1/sdk/artifact-register");
const mebibyte = 1024 * 1024;
const largest = fullRequest(register, 12 * mebibyte);
const json = spellings.rest(register, largest);
const canonical = spellings.canonical(register, largest);
const framed = encodeFrame(spellings.binary(register, largest));

/** What came of the calls of a flood, by status or reason. */
type Outcomes = Map<string, number>;

async function flood(count: number, send: () => Promise<string>): Promise<Outcomes> {
  const outcomes: Outcomes = new Map();
  for (const outcome of await Promise.all(Array.from({ length: count }, send)))
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
  return outcomes;
}

/** Sends over HTTP/1.1; `body` undefined: declares it and sends nothing for a while. */
function post(url: string, headers: http.OutgoingHttpHeaders, body: Buffer | undefined): Promise<string> {
  return new Promise((resolve) => {
    const request = http.request(url, { method: "POST", headers, agent: false });
    request.on("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? "error"));
    request.on("response", (response) => {
      response.resume();
      response.on("end", () => resolve(String(response.statusCode)));
      if (body === undefined) request.destroy();
    });
    if (body === undefined) {
      request.write(json.subarray(0, mebibyte));
      setTimeout(() => request.destroy(), 3_000);
    } else request.end(body);
  });
}

function grpc(session: http2.ClientHttp2Session, token: string): Promise<string> {
  return new Promise((resolve) => {
    const stream = session.request({
      ":method": "POST",
      ":path": register.rpcPath,
      "content-type": "application/grpc",
      te: "trailers",
      authorization: `Bearer ${token}`,
    });
    let status = "none";
    const note = (headers: http2.IncomingHttpHeaders) => {
      status = String(headers["grpc-status"] ?? status);
    };
    stream
      .on("response", note)
      .on("trailers", note)
      .on("error", () => {});
    stream.on("close", () => resolve(`grpc-status ${status}`));
    stream.resume();
    stream.end(framed);
  });
}

const dataDir = mkdtempSync(join(tmpdir(), "svc-bodies-"));
const issuer = await startBenchIssuer();
const gateway = await startGatewayProcess({ issuer, dataDir, logFile: join(dataDir, "log") });
try {
  const token = await fetchToken(issuer);
  const { url, ops_url: opsUrl } = gateway.listening;
  let peakBytes = 0;
  const watch = setInterval(() => {
    peakBytes = Math.max(peakBytes, gateway.residentBytes());
  }, 20);
  const authorization = `Bearer ${token}`;
  const headers = (body: Buffer, type: string, more = {}) => ({
    authorization,
    "content-type": type,
    "content-length": body.length,
    ...more,
  });
  const gzipped = gzipSync(canonical);
  const floods: [name: string, run: () => Promise<Outcomes>][] = [
    [
      "64 whole bodies, REST",
      () => flood(64, () => post(url + register.restPath, headers(json, "application/json"), json)),
    ],
    [
      "64 whole bodies of no declared length",
      () =>
        flood(64, () =>
          post(
            url + register.restPath,
            { authorization, "content-type": "application/json", "transfer-encoding": "chunked" },
            json,
          ),
        ),
    ],
    [
      "64 whole bodies, Connect",
      () => flood(64, () => post(url + register.rpcPath, headers(canonical, "application/json"), canonical)),
    ],
    [
      `256 bodies of ${gzipped.length} bytes in gzip, Connect`,
      () =>
        flood(256, () =>
          post(url + register.rpcPath, headers(gzipped, "application/json", { "content-encoding": "gzip" }), gzipped),
        ),
    ],
    [
      "64 whole bodies, gRPC",
      async () => {
        // What this side has still to send counts as memory of the session.
        const session = http2.connect(url, { maxSessionMemory: 4096 });
        session.on("error", () => {});
        const outcomes = await flood(64, () => grpc(session, token));
        session.destroy();
        return outcomes;
      },
    ],
    [
      "160 bodies that do not end",
      () => flood(160, () => post(url + register.restPath, headers(json, "application/json"), undefined)),
    ],
  ];
  process.stdout.write("| flood | answers | resident at most, MiB |\n|---|---|---|\n");
  for (const [name, run] of floods) {
    peakBytes = 0;
    const outcomes = await run();
    await delay(100);
    const answers = [...outcomes].map(([outcome, count]) => `${count} × ${outcome}`).join(", ");
    process.stdout.write(`| ${name} | ${answers} | ${Math.round(peakBytes / mebibyte)} |\n`);
  }
  clearInterval(watch);
  // Of callers who have gone by now.
  await delay(2_000);
  const left = /^svc_body_bytes_in_flight \d+$/m.exec(await (await fetch(`${opsUrl}/metrics`)).text())?.[0];
  process.stdout.write(`\nAfterwards: ${left}\n`);
} finally {
  await gateway.stop();
  await issuer.stop();
  process.stdout.write(readFileSync(join(dataDir, "log"), "utf8").includes('"level":"fatal"') ? "fatal line\n" : "");
  rmSync(dataDir, { recursive: true });
}
