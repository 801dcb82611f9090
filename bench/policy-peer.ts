/** The peer decision server, one request to it over HTTP and over gRPC, and rounds of load on the gateway beside it. */
import { mkdtempSync, writeFileSync } from "node:fs";
import { connect } from "node:http2";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fromJson, type JsonValue, toBinary } from "@bufbuild/protobuf";
import { BinaryWriter } from "@bufbuild/protobuf/wire";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import type { ProtectionPlanRequest } from "../src/domain/requests.ts";
import { encodeFrame } from "../src/transport/grpc/frame.ts";
import { startProgram } from "./child.ts";
import { type Files, writeFiles } from "./policy-rules.ts";
import { type LoadedServer, measureInTurn, type Plan } from "./run.ts";

const startTimeoutMs = 60_000;

export interface Peer {
  readonly httpUrl: string;
  readonly grpcUrl: string;
  cpuMicros(): number;
  stop(): Promise<unknown>;
}

/**
 * Starts the binary with these policy texts, by path, and waits until it is healthy. Its log keeps its default: a line
 * for each request.
 * @param directory in which it gets its own folder
 */
export async function startPeer(binary: string, directory: string, policies: Files, core?: number): Promise<Peer> {
  const [httpPort, grpcPort] = [await freePort(), await freePort()];
  const home = mkdtempSync(join(directory, "peer-"));
  writeFiles(join(home, "policies"), policies);
  const config = {
    server: {
      httpListenAddr: `127.0.0.1:${httpPort}`,
      grpcListenAddr: `127.0.0.1:${grpcPort}`,
    },
    storage: { driver: "disk", disk: { directory: join(home, "policies"), watchForChanges: false } },
    telemetry: { disabled: true },
  };
  writeFileSync(join(home, "config.yaml"), JSON.stringify(config));
  const command = [binary, "server", `--config=${join(home, "config.yaml")}`];
  const started = { env: { HOME: home }, logFile: join(home, "log"), ...(core !== undefined && { core }) };
  const { stop, ended, cpuMicros } = startProgram(command, started);
  const httpUrl = `http://127.0.0.1:${httpPort}`;
  try {
    await Promise.race([
      untilHealthy(httpUrl),
      ended.then(() => Promise.reject(new Error(`the peer ended: ${home}/log`))),
    ]);
  } catch (error) {
    await stop();
    throw error;
  }
  return { httpUrl, grpcUrl: `http://127.0.0.1:${grpcPort}`, cpuMicros, stop };
}

async function untilHealthy(url: string): Promise<void> {
  const end = performance.now() + startTimeoutMs;
  while (performance.now() < end) {
    const status = await fetch(`${url}/_cerbos/health`)
      .then((response) => response.status)
      .catch(() => 0);
    if (status === 200) return;
    await delay(10);
  }
  throw new Error(`the peer is not healthy after ${startTimeoutMs} ms`);
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (typeof address !== "object" || address === null) throw new Error("no port");
  return address.port;
}

export const peerHttpPath = "/api/check/resources";
export const peerGrpcPath = "/cerbos.svc.v1.CerbosService/CheckResources";

/** The gateway's caller and its request in the peer's form. */
export interface PeerQuestion {
  readonly principal: { readonly id: string; readonly attr: Readonly<Record<string, JsonValue>> };
  readonly resource: { readonly id: string; readonly attr: Readonly<Record<string, JsonValue>> };
}

/** The peer's form of a call of protection-plan whose caller has these scopes. */
export function peerQuestion(body: ProtectionPlanRequest, scopes: readonly string[]): PeerQuestion {
  const { workload, resource, purpose, labels, attributes } = body;
  const { kind, id = "" } = resource;
  const attr = { kind, workload, purpose: purpose ?? null, labels: [...labels], attributes };
  return { principal: { id: "principal", attr: { scopes: [...scopes] } }, resource: { id, attr } };
}

/** Body of the HTTP request. */
export function peerJson({ principal, resource }: PeerQuestion): Buffer {
  const resources = [{ actions: ["protect"], resource: { kind: "data", ...resource } }];
  return Buffer.from(JSON.stringify({ requestId: "r", principal: { roles: ["caller"], ...principal }, resources }));
}

/** The same as one length-prefixed message. Field numbers are those of cerbos/engine/v1 and cerbos/request/v1. */
export function peerFrame({ principal, resource }: PeerQuestion): Buffer {
  const writer = new BinaryWriter();
  writer.tag(1, 2).string("r");
  writer.tag(3, 2).fork().tag(1, 2).string(principal.id).tag(3, 2).string("caller");
  writeAttributes(writer, principal.attr).join();
  writer.tag(4, 2).fork().tag(1, 2).string("protect");
  writer.tag(2, 2).fork().tag(1, 2).string("data").tag(3, 2).string(resource.id);
  writeAttributes(writer, resource.attr).join().join();
  return encodeFrame(writer.finish());
}

/** `map<string, google.protobuf.Value> attr = 4`. */
function writeAttributes(writer: BinaryWriter, attributes: Readonly<Record<string, JsonValue>>): BinaryWriter {
  for (const [name, value] of Object.entries(attributes)) {
    const bytes = toBinary(ValueSchema, fromJson(ValueSchema, value));
    writer.tag(4, 2).fork().tag(1, 2).string(name).tag(2, 2).bytes(bytes).join();
  }
  return writer;
}

/** Asks once on both protocols. Rejects unless the answer allows the action. */
export async function requirePeerAllows(peer: Peer, question: PeerQuestion): Promise<void> {
  const response = await fetch(peer.httpUrl + peerHttpPath, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: new Uint8Array(peerJson(question)),
  });
  const text = await response.text();
  if (!text.includes('"protect":"EFFECT_ALLOW"')) throw new Error(`the peer answered over HTTP: ${text}`);
  const answer = await askOverGrpc(peer.grpcUrl, peerFrame(question));
  // An entry of `map<string, Effect> actions`: "protect" and EFFECT_ALLOW = 1.
  const allowed = Buffer.concat([Buffer.from([0x0a, 7]), Buffer.from("protect"), Buffer.from([0x10, 1])]);
  if (!answer.includes(allowed)) throw new Error(`the peer answered over gRPC: ${answer.toString("latin1")}`);
}

async function askOverGrpc(url: string, frame: Buffer): Promise<Buffer> {
  const session = connect(url);
  const stream = session.request({
    ":method": "POST",
    ":path": peerGrpcPath,
    "content-type": "application/grpc",
    te: "trailers",
  });
  stream.end(frame);
  const chunks: Buffer[] = [];
  let status: unknown;
  stream.on("trailers", (trailers) => {
    status = trailers["grpc-status"];
  });
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  session.close();
  if (status !== "0") throw new Error(`the peer answered over gRPC with status ${String(status)}`);
  return Buffer.concat(chunks);
}

/** Options of every measurement beside the peer; `peer` is its binary. */
export const peerOptions = { peer: "", seconds: 3, rounds: 5, "warm-up": 10, cores: 1 } as const;

/** One row of the table. */
export interface PeerScenario {
  readonly name: string;
  readonly gateway: LoadedServer;
  readonly peer: LoadedServer;
}

/**
 * Measures the scenario. Returns its row; a ratio over 1 is in the gateway's favour, the ratio in parentheses is by
 * processor time.
 */
export async function measureBesidePeer({ name, ...servers }: PeerScenario, plan: Plan) {
  const [gateway, peer] = await measureInTurn([servers.gateway, servers.peer], plan);
  if (gateway === undefined || peer === undefined) throw new Error("nothing was measured");
  return {
    call: name,
    "gateway/s": Math.round(gateway.median(({ perSecond }) => perSecond)),
    "peer/s": Math.round(peer.median(({ perSecond }) => perSecond)),
    "ratio (by CPU)": gateway.of(peer),
    "gateway p99 ms": gateway.median(({ p99Ms }) => p99Ms).toFixed(1),
    "peer p99 ms": peer.median(({ p99Ms }) => p99Ms).toFixed(1),
    "gateway CPU µs": Math.round(gateway.median(({ cpuMicrosEach }) => cpuMicrosEach)),
    "peer CPU µs": Math.round(peer.median(({ cpuMicrosEach }) => cpuMicrosEach)),
  };
}
