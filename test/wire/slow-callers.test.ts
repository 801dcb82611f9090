import http2 from "node:http2";
import net from "node:net";
import { expect, test } from "vitest";
import { folderForFile } from "../harness/folder.ts";
import { metricSum } from "../harness/gateway.ts";
import { h1Connect, h1Exchange, h1Request } from "../harness/h1.ts";
import { h2Fields, h2Frame, h2NoWindow, h2Preface, h2Raw, h2RequestHeaders } from "../harness/h2-frames.ts";
import { issuerForFile } from "../harness/issuer-for-file.ts";
import { forFile } from "../harness/lifetimes.ts";
import { serviceSettings, startLimitedService } from "../harness/process.ts";

const issuer = await issuerForFile();
const directory = folderForFile("slow");
const settings = { ...serviceSettings(directory, issuer.url), SVC_MAX_CONNECTIONS: "16" };
const service = await forFile(startLimitedService(directory, settings, { answerTimeoutMs: 500 }));

function rawConnect(): net.Socket {
  const { hostname, port } = new URL(service.url);
  return net.connect(Number(port), hostname).on("error", () => {});
}

/** Calls that are over with this code. */
const finished = (code: string) => metricSum(service, new RegExp(`^svc_calls_total\\{.*code="${code}"`));

test("streams that wait for a window are reset when their time is up", async () => {
  const streams = 50;
  const [reset, ping] = [3, 6];
  let resets = 0;
  const onFrame = (type: number) => {
    if (type === reset) resets += 1;
    if (type === ping) socket.write(h2Frame(ping, 0x1, 0, Buffer.alloc(8)));
  };
  const socket = h2Raw(service.url, onFrame, { settings: h2NoWindow });
  for (let i = 0; i < streams; i++) socket.write(h2Frame(1, 0x5, 2 * i + 1, h2RequestHeaders("/v1/sdk/whoami")));
  await expect.poll(() => resets).toBe(streams);
  await expect.poll(() => finished("unauthenticated")).toBe(streams);
  socket.destroy();
});

/** Settings, and a Health/Watch, whose answer goes on for as long as its caller is there. */
function watchFrames(): Buffer {
  const call = {
    ":method": "POST",
    ":scheme": "http",
    ":path": "/grpc.health.v1.Health/Watch",
    ":authority": "localhost",
  };
  const block = h2Fields({ ...call, "content-type": "application/grpc", te: "trailers" });
  return Buffer.concat([h2Preface, h2Frame(4, 0, 0), h2Frame(1, 0x4, 1, block), h2Frame(0, 0x1, 1, Buffer.alloc(5))]);
}

test("a peer that keeps a stream open and sends nothing is disconnected", async () => {
  const socket = rawConnect();
  const received: Buffer[] = [];
  socket.on("data", (chunk: Buffer) => received.push(chunk));
  const closed = new Promise((resolve) => socket.once("close", resolve));
  socket.write(watchFrames());
  await closed;
  const ping = h2Frame(6, 0, 0, Buffer.alloc(8)).subarray(0, 5);
  expect(Buffer.concat(received).includes(ping)).toBe(true);
});

test("a peer that announced its end and then vanished is forgotten", async () => {
  const socket = rawConnect();
  const closed = new Promise((resolve) => socket.once("close", resolve));
  socket.resume().write(Buffer.concat([watchFrames(), h2Frame(7, 0, 0, Buffer.alloc(8))]));
  await closed;
});

test("a peer that answers pings keeps its stream", async () => {
  const session = http2.connect(service.url);
  const stream = session.request({
    ":method": "POST",
    ":path": "/grpc.health.v1.Health/Watch",
    "content-type": "application/grpc",
    te: "trailers",
  });
  stream.resume().end(Buffer.alloc(5));
  let asked = 0;
  session.on("ping", () => {
    asked += 1;
  });
  await expect.poll(() => asked).toBe(3);
  expect(stream.closed).toBe(false);
  stream.close();
  session.close();
});

test("an HTTP/1.1 caller that never reads is disconnected, and its calls end", async () => {
  const socket = rawConnect().pause();
  const requests = 200;
  socket.write(h1Request("GET /openapi.json", []).repeat(requests));
  const closed = new Promise((resolve) => socket.once("close", resolve));
  // Answers whose turn to be written never came are over too.
  await expect.poll(() => finished("canceled")).toBeGreaterThan(10);
  let receivedBytes = 0;
  socket.on("data", (chunk: Buffer) => {
    receivedBytes += chunk.byteLength;
  });
  socket.resume();
  await closed;
  const { byteLength } = Buffer.from((await h1Exchange(service.url, h1Request("GET /openapi.json", [])))?.text ?? "");
  expect(receivedBytes).toBeLessThan(requests * byteLength);
});

test("pipelined requests beyond the limit end the connection", async () => {
  const connection = await h1Connect(service.url);
  connection.write(h1Request("GET /v1/sdk/whoami", []).repeat(5_000));
  await connection.closed;
});

test("idle connections make room for new ones", async () => {
  const idle = await Promise.all(Array.from({ length: 20 }, () => h1Connect(service.url)));
  for (let i = 0; i < 3; i++)
    expect((await h1Exchange(service.url, h1Request("GET /v1/sdk/whoami", [])))?.status).toBe(401);
  for (const connection of idle) connection.destroy();
});

test("none of these cases is logged as an error", () => {
  expect(service.lines.filter((line) => /"level":"(error|fatal)"/.test(line))).toEqual([]);
  expect(service.errors()).toBe("");
});
