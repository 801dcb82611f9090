/** Floods of request bodies of 12 MiB, as one tenant may send them. */
import http from "node:http";
import type { ClientHttp2Session } from "node:http2";
import { gzipSync } from "node:zlib";
import { encodeFrame } from "../../src/transport/grpc/frame.ts";
import { fullRequest, spellings } from "./full-bodies.ts";
import { h2Call, h2Connect } from "./h2.ts";
import { methodOn } from "./methods.ts";

const register = methodOn("/v1/sdk/artifact-register");
const mebibyte = 1024 * 1024;
const largest = fullRequest(register, 12 * mebibyte);
const json = spellings.rest(register, largest);
const canonical = spellings.canonical(register, largest);
const framed = encodeFrame(spellings.binary(register, largest));

/** What came of the calls of a flood, by status or reason. */
export type Outcomes = ReadonlyMap<string, number>;
export type BodyFlood = readonly [name: string, run: () => Promise<Outcomes>];

async function flood(count: number, send: () => Promise<string>): Promise<Outcomes> {
  const outcomes = new Map<string, number>();
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

async function grpc(session: ClientHttp2Session, authorization: string): Promise<string> {
  const given = { "content-type": "application/grpc", te: "trailers", authorization };
  const { headers, trailers } = await h2Call(session, { path: register.rpcPath, headers: given, body: framed });
  return `grpc-status ${trailers["grpc-status"] ?? headers["grpc-status"] ?? "none"}`;
}

/** The floods by what they are. */
export function bodyFloods(url: string, token: string): readonly BodyFlood[] {
  const authorization = `Bearer ${token}`;
  const headers = (body: Buffer, type: string, more = {}) => ({
    authorization,
    "content-type": type,
    "content-length": body.length,
    ...more,
  });
  const gzipped = gzipSync(canonical);
  return [
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
        const session = await h2Connect(url, { maxSessionMemory: 4096 });
        const outcomes = await flood(64, () => grpc(session, authorization));
        session.destroy();
        return outcomes;
      },
    ],
    [
      "160 bodies that do not end",
      () => flood(160, () => post(url + register.restPath, headers(json, "application/json"), undefined)),
    ],
  ];
}
