/**
 * Input of attackers, against the service in a process of its own. Whatever comes, the service
 * neither fails (no answer is its own fault), nor ends, nor hangs, nor grows; and the next caller is served.
 */
import { once } from "node:events";
import { afterEach, describe, expect, test } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import { folderForFile } from "../harness/folder.ts";
import { rest } from "../harness/gateway.ts";
import { frame, refusalInConnect, refusalInTrailers } from "../harness/grpc.ts";
import { type H1Answer, type H1Connection, h1Connect, h1Exchange, h1Request } from "../harness/h1.ts";
import { type H2Answer, h2Call, h2Close, h2Connect } from "../harness/h2.ts";
import { h2Field, h2Frame, h2Preface, h2RequestHeaders } from "../harness/h2-frames.ts";
import { issuerForFile } from "../harness/issuer-for-file.ts";
import { forFile } from "../harness/lifetimes.ts";
import { methodOn } from "../harness/methods.ts";
import { serviceSettings, startLimitedService } from "../harness/process.ts";

const plan = methodOn("/v1/sdk/protection-plan");
const planBody = sampleCalls().find(({ route }) => route === plan.restPath)?.body ?? {};
const maxBodyBytes = 262_144;
const mebibyte = 1024 * 1024;

const issuer = await issuerForFile();
const directory = folderForFile("hostile");
const settings = serviceSettings(directory, issuer.url);
const service = await forFile(startLimitedService(directory, settings, { bodyTimeoutMs: 200 }));
const token = issuer.token({ scope: "platform-api.access policy.read artifacts.write" });
/** Lines of the log that were looked at already. */
let seenLines = 0;
/** Connections that say too little, opened at the start: by the end of the file their time is up. */
const reluctant = {
  silent: await h1Connect(service.url),
  slowHeaders: await h1Connect(service.url),
  partialPreface: await h1Connect(service.url),
};
reluctant.slowHeaders.write("GET /v1/sdk/whoami HTTP/1.1\r\nHost: localhost\r\nX-Slow: ");
reluctant.partialPreface.write("PRI * HTTP/2.0\r\n");
// Warm: what a first call of each kind makes is no growth.
for (let i = 0; i < 50; i++) await onRest(JSON.stringify(planBody));
const baselineBytes = service.residentBytes();

// After everything that follows the next caller is served, and no line of the log speaks of a failure.
afterEach(async () => {
  const answer = await rest(`${service.url}/v1/sdk/whoami`, { token });
  expect(answer.status).toBe(200);
  const since = service.lines.slice(seenLines);
  seenLines = service.lines.length;
  expect(since.filter((line) => line.includes('"level":"error"') || line.includes('"level":"fatal"'))).toEqual([]);
  expect(service.errors()).toBe("");
});

/** Sends a body to protection-plan over HTTP/1.1. */
function onRest(body: string | Uint8Array, type = "application/json", path = plan.restPath) {
  const bytes = typeof body === "string" ? Buffer.from(body) : body;
  const head = h1Request(`POST ${path}`, [
    `Authorization: Bearer ${token}`,
    `Content-Type: ${type}`,
    `Content-Length: ${bytes.byteLength}`,
  ]);
  return h1Exchange(service.url, Buffer.concat([Buffer.from(head), bytes]));
}

/** The refusal in an answer: not the service's fault. */
function refusedWith(answer: H1Answer | undefined): { status: number; reason: string } {
  if (answer === undefined) throw new Error("no answer");
  const { error } = JSON.parse(answer.text);
  return { status: answer.status, reason: error?.reason ?? refusalInConnect(answer.text).reason };
}

const invalid = { status: 400, reason: "invalid_request" };
const withMember = (text: string) => `${JSON.stringify(planBody).slice(0, -1)},${text}}`;

describe("JSON", () => {
  test.each<[string, string | Buffer]>([
    ["nothing", ""],
    ["a long number", `{"content_size_bytes":${"9".repeat(100_000)}}`],
    ["deep arrays, closed", "[".repeat(100_000) + "]".repeat(100_000)],
    ["deep objects, closed", `${'{"workload":'.repeat(20_000)}1${"}".repeat(20_000)}`],
    ["a deep attribute", withMember(`"attributes2":${"[".repeat(50_000)}${"]".repeat(50_000)}`)],
    ["many unknown members", `{${Array.from({ length: 20_000 }, (_, i) => `"m${i}":1`).join(",")}}`],
  ])("%s is refused", async (_name, body) => {
    expect(refusedWith(await onRest(body))).toEqual(invalid);
    // As canonical protobuf JSON on Connect, which has another parser of messages.
    const connect = await onRest(body, "application/json", plan.rpcPath);
    expect(connect?.status).toBe(400);
  });
});

describe("bodies", () => {
  /** A connection that has sent the headers of a call. */
  async function posting(framing: string): Promise<H1Connection> {
    const connection = await h1Connect(service.url);
    const headers = [`Authorization: Bearer ${token}`, "Content-Type: application/json", framing];
    connection.write(h1Request(`POST ${plan.restPath}`, headers));
    return connection;
  }

  test("a body that ends early gets no answer", async () => {
    const connection = await posting("Content-Length: 1000");
    connection.write('{"operation"');
    connection.end();
    await connection.closed;
  });

  test("a body that never ends is refused, and its connection closed", async () => {
    const connection = await posting("Transfer-Encoding: chunked");
    const chunk = `10000\r\n${"x".repeat(0x10000)}\r\n`;
    const sending = setInterval(() => connection.write(chunk), 1);
    expect(refusedWith(await connection.next())).toEqual({ status: 413, reason: "body_too_large" });
    await connection.closed;
    clearInterval(sending);
  });

  test("a body that trickles is refused in time", async () => {
    const connection = await posting("Content-Length: 1000");
    const trickle = setInterval(() => connection.write(" "), 20);
    expect(refusedWith(await connection.next())).toEqual({ status: 408, reason: "request_timeout" });
    clearInterval(trickle);
    connection.destroy();
  });

  test("bytes after a body's declared length are no second request", async () => {
    const body = JSON.stringify(planBody);
    const connection = await posting(`Content-Length: ${body.length}`);
    connection.write(`${body}${body}`);
    expect(await connection.next()).toMatchObject({ status: 200 });
    expect(await connection.next()).toMatchObject({ status: 400 });
    expect(await connection.next()).toBeUndefined();
  });
});

/** Sends one call to protection-plan over gRPC, on a session of its own. */
async function onGrpc(body: Uint8Array): Promise<H2Answer> {
  const session = await h2Connect(service.url);
  const headers = { "content-type": "application/grpc", authorization: `Bearer ${token}` };
  const answer = await h2Call(session, { path: plan.rpcPath, headers, body });
  await h2Close(session);
  return answer;
}

describe("protobuf", () => {
  const groups = (depth: number) => Buffer.concat([Buffer.alloc(2 * depth, Buffer.from([0xfb, 0x3f]))]);
  const nested = (depth: number) => {
    let message = Buffer.alloc(0);
    for (let i = 0; i < depth; i++) message = Buffer.concat([Buffer.from([0x12, message.length]), message]);
    return message;
  };

  test.each<[string, Uint8Array]>([
    ["100,000 open groups", groups(100_000)],
    ["100,000 groups", Buffer.concat([groups(60_000), Buffer.alloc(120_000, Buffer.from([0xfc, 0x3f]))])],
    ["messages in messages", nested(60)],
  ])("%s is answered", async (_name, message) => {
    const { trailers } = await onGrpc(frame(message));
    expect(refusalInTrailers(trailers)).toMatchObject({ reason: "invalid_request" });
    expect((await onRest(message, "application/proto", plan.rpcPath))?.status).toBe(400);
  });
});

describe("HTTP/1.1", () => {
  const authorization = () => `Authorization: Bearer ${token}`;
  const json = "Content-Type: application/json";
  /** A whole request that a front server might have taken for the body of the one before it. */
  const smuggled = () => h1Request("GET /v1/sdk/whoami", [authorization()]);

  /** One refusal at most, and no answer after it. */
  async function expectEnd(bytes: string): Promise<void> {
    const connection = await h1Connect(service.url);
    connection.write(bytes);
    const answer = await connection.next();
    if (answer !== undefined) {
      expect(refusedWith(answer)).toEqual(invalid);
      expect(answer.headers.get("cache-control")).toBe("no-store");
    }
    expect(await connection.next()).toBeUndefined();
  }

  const chunked = "Transfer-Encoding: chunked";
  const empty = "Content-Length: 0";
  const lastChunk = "0\r\n\r\n";

  test.each<[string, readonly string[], string?]>([
    ["a length and chunks", ["Content-Length: 4", chunked], lastChunk],
    ["chunks and a length", [chunked, "Content-Length: 4"], lastChunk],
    ["two lengths", [empty, "Content-Length: 60"]],
    ["two equal lengths", [empty, empty]],
    ["a list of lengths", ["Content-Length: 0, 0"]],
    ["a negative length", ["Content-Length: -1"]],
    ["a signed length", ["Content-Length: +0"]],
    ["a hexadecimal length", ["Content-Length: 0x0"]],
    ["a length beyond numbers", [`Content-Length: ${"9".repeat(40)}`]],
    ["an unknown transfer coding", ["Transfer-Encoding: xchunked"]],
    ["chunked not last", ["Transfer-Encoding: chunked, identity"], lastChunk],
    ["two transfer codings", [chunked, "Transfer-Encoding: identity"], lastChunk],
    ["a transfer coding after a vertical tab", ["Transfer-Encoding: \x0bchunked"], lastChunk],
    ["a space before the colon", ["Content-Length : 0"]],
    ["a folded header", ["X-Fold: a\r\n b", empty]],
    ["a folded length", ["Content-Length:\r\n 0"]],
    ["a bare line feed", ["X-A: b\nTransfer-Encoding: chunked", empty]],
    ["a bare carriage return", ["X-A: b\rTransfer-Encoding: chunked", empty]],
    ["a null byte in a header", ["X-A: \0", empty]],
    ["a header without a colon", ["Content-Length", "X: 0"]],
    ["a chunk size beyond numbers", [chunked], `${"F".repeat(20)}\r\n`],
    ["a chunk size of minus one", [chunked], "-1\r\n"],
    ["a chunk longer than it says", [chunked], `1\r\n{}\r\n${lastChunk}`],
    ["a chunk ended by a line feed", [chunked], "2\n{}\n0\n\n"],
    ["endless chunk extensions", [chunked], `1;${"a".repeat(100_000)}\r\n`],
  ])("%s ends the connection, and smuggles no request", async (_name, headers, body = "") => {
    await expectEnd(h1Request(`POST ${plan.restPath}`, [authorization(), json, ...headers], `${body}${smuggled()}`));
  });

  test.each<[string, () => string]>([
    [
      "chunks over HTTP/1.0",
      () =>
        h1Request(
          `POST ${plan.restPath}`,
          [authorization(), json, chunked, "Content-Length: 5"],
          `${lastChunk}${smuggled()}`,
        ).replace("HTTP/1.1", "HTTP/1.0"),
    ],
    ["a version from the future", () => smuggled().replace("HTTP/1.1", "HTTP/3.0")],
    ["no version", () => "GET /v1/sdk/whoami\r\n\r\n"],
    ["a space in the path", () => smuggled().replace("whoami", "who ami")],
    ["a method of no standard", () => smuggled().replace("GET", "BREW")],
    ["a TLS handshake", () => "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"],
    ["garbage", () => "\x00\xff\x00\xff\r\n\r\n"],
    ["a preface that goes wrong", () => "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n"],
  ])("%s ends the connection", (_name, request) => expectEnd(request()));

  test.each<[string, string, number]>([
    ["no request", "GARBAGE\r\n\r\n", 400],
    ["headers over the limit", h1Request("GET /", [`X-Long: ${"a".repeat(40_000)}`]), 431],
    ["a request for a tunnel", "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", 405],
    ["a chunk of no size", h1Request(`POST ${plan.restPath}`, [authorization(), json, chunked], "x\r\n"), 400],
  ])("%s after whole requests is refused after their answers", async (_name, last, status) => {
    const connection = await h1Connect(service.url);
    const body = JSON.stringify(planBody);
    const whole = h1Request(`POST ${plan.restPath}`, [authorization(), json, `Content-Length: ${body.length}`], body);
    connection.write(whole + whole + last);
    const statuses = [];
    for (let i = 0; i < 4; i++) statuses.push((await connection.next())?.status);
    expect(statuses).toEqual([200, 200, status, undefined]);
    await connection.closed;
  });

  test.each([
    ["one header", "GET /", [`X-Long: ${"a".repeat(40_000)}`]],
    ["headers", "GET /", Array.from({ length: 400 }, (_, i) => `X-${i}: ${"a".repeat(100)}`)],
    ["path", `GET /?${"a".repeat(40_000)}`, []],
  ])("40 KiB of %s are refused", async (_name, line, headers) => {
    expect(await h1Exchange(service.url, h1Request(line, headers))).toMatchObject({ status: 431 });
  });

  test.each([
    ["two content types", [json, "Content-Type: text/plain"]],
    ["two content types alike", [json, json]],
    ["a transfer coding below chunked", [json, "Transfer-Encoding: gzip, chunked"]],
    ["two lines of transfer codings", [json, "Transfer-Encoding: gzip", "Transfer-Encoding: chunked"]],
  ])("a request with %s is refused on every route", async (_, headers) => {
    const body = JSON.stringify(planBody);
    const isChunked = headers.some((line) => line.startsWith("Transfer-Encoding"));
    const framed = isChunked ? `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n` : body;
    const length = isChunked ? [] : [`Content-Length: ${body.length}`];
    for (const path of [plan.restPath, plan.rpcPath]) {
      const lines = [`POST ${path} HTTP/1.1`, "Host: localhost", ...headers, ...length, authorization(), "", framed];
      expect((await h1Exchange(service.url, lines.join("\r\n")))?.status).toBe(400);
    }
  });

  test.each([
    [["Host: localhost", "Connection: Upgrade", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"]],
    [["Host: localhost", "Connection: Upgrade", "Upgrade: websocket"]],
    [["Host: localhost", "Expect: 200-ok"]],
  ])("%j is answered on every route", async (headers) => {
    for (const path of ["/v1/sdk/whoami", "/platform.sdk.v1.DiscoveryService/WhoAmI", "/nowhere"]) {
      const lines = [`POST ${path} HTTP/1.1`, ...headers, authorization(), json, "Content-Length: 2", "", "{}"];
      const answer = await h1Exchange(service.url, lines.join("\r\n"));
      expect(answer?.status).toBeGreaterThanOrEqual(200);
      expect(answer?.status).toBeLessThan(500);
    }
  });

  test.each([
    ["HTTP/1.1", []],
    ["HTTP/1.0", []],
    ["HTTP/1.1", ["Host: a", "Host: b"]],
    ["HTTP/1.1", ["Host: "]],
    ["HTTP/1.1", ["Host: ["]],
    ["HTTP/1.1", ["Host: a b"]],
    ["HTTP/1.1", ["Host: a@b"]],
    ["HTTP/1.1", ["Host: a/b"]],
    ["HTTP/1.1", ["Host: \xff"]],
  ])("%s with %j as its host is refused on every route", async (version, headers) => {
    for (const path of ["/v1/sdk/whoami", "/platform.sdk.v1.DiscoveryService/WhoAmI", "/nowhere"]) {
      const lines = [`POST ${path} ${version}`, ...headers, authorization(), json, "Content-Length: 2", "", "{}"];
      expect(refusedWith(await h1Exchange(service.url, lines.join("\r\n")))).toEqual(invalid);
    }
  });
});

describe("HTTP/2", () => {
  /** Opens a connection by hand and reads nothing more than its end. */
  async function raw(bytes: readonly Uint8Array[]): Promise<H1Connection> {
    const connection = await h1Connect(service.url);
    connection.write(Buffer.concat([h2Preface, h2Frame(4, 0, 0), ...bytes]));
    return connection;
  }

  const headers = (streamId: number, flags = 0x5) => h2Frame(1, flags, streamId, h2RequestHeaders("/v1/sdk/whoami"));

  test.each<[string, Uint8Array[]]>([
    ["headers on stream 0", [h2Frame(1, 0x5, 0, Buffer.from([0x82]))]],
    ["an even stream", [headers(2)]],
    ["data on an idle stream", [h2Frame(0, 0, 1, Buffer.from("x"))]],
    ["a frame over the limit", [h2Frame(0, 0, 1, Buffer.alloc(20_000))]],
    ["padding longer than the frame", [h2Frame(1, 0x0d, 1, Buffer.from([0xff, 0x82]))]],
    ["headers that no table has", [h2Frame(1, 0x5, 1, Buffer.from([0xff, 0xff, 0xff, 0x7f]))]],
    ["a push promise", [h2Frame(5, 0x4, 1, Buffer.from([0, 0, 0, 2, 0x82]))]],
    ["a settings frame of odd length", [h2Frame(4, 0, 0, Buffer.alloc(5))]],
    ["a settings acknowledgement with content", [h2Frame(4, 1, 0, Buffer.alloc(6))]],
    [
      "a window of 2^31",
      [
        h2Frame(8, 0, 0, Buffer.from([0x7f, 0xff, 0xff, 0xff])),
        h2Frame(8, 0, 0, Buffer.from([0x7f, 0xff, 0xff, 0xff])),
      ],
    ],
    ["a window update of nothing", [h2Frame(8, 0, 0, Buffer.alloc(4))]],
    ["a ping of seven bytes", [h2Frame(6, 0, 0, Buffer.alloc(7))]],
    ["a continuation of nothing", [h2Frame(9, 0x4, 1, Buffer.from([0x82]))]],
    ["another frame between headers", [headers(1, 0x1), h2Frame(6, 0, 0, Buffer.alloc(8))]],
    ["10,000 continuations", [headers(1, 0x1), ...Array(10_000).fill(h2Frame(9, 0, 1, Buffer.from([0x82])))]],
    ["garbage", [Buffer.alloc(4096, 0xff)]],
  ])("%s ends the connection", async (_name, bytes) => {
    const connection = await raw(bytes);
    await connection.closed;
  });

  test.each<[string, Uint8Array[]]>([
    ["10,000 pings", Array(10_000).fill(h2Frame(6, 0, 0, Buffer.alloc(8)))],
    ["10,000 settings", Array(10_000).fill(h2Frame(4, 0, 0, Buffer.from([0, 3, 0, 0, 0, 100])))],
    ["10,000 empty data frames", [headers(1, 0x4), ...Array(10_000).fill(h2Frame(0, 0, 1))]],
    ["streams that go back", [headers(5), headers(3)]],
    ["10,000 priorities", Array(10_000).fill(h2Frame(2, 0, 3, Buffer.from([0, 0, 0, 0, 16])))],
    ["10,000 frames of an unknown type", Array(10_000).fill(h2Frame(0xbe, 0, 0, Buffer.alloc(8)))],
    [
      "10,000 streams, each reset at once",
      Array.from({ length: 10_000 }, (_, i) =>
        Buffer.concat([headers(2 * i + 1), h2Frame(3, 0, 2 * i + 1, Buffer.from([0, 0, 0, 8]))]),
      ),
    ],
  ])("%s do not stop the service", async (_name, bytes) => {
    const connection = await raw(bytes);
    // Served once all of that is read: another caller, and then this one's own end.
    expect((await rest(`${service.url}/v1/sdk/whoami`, { token })).status).toBe(200);
    connection.end();
    await connection.closed;
  });

  test("a caller that overruns a stream's window during its answer is no failure of the service", async () => {
    const [, ...rest] = h2RequestHeaders("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo");
    const post = [Buffer.from([0x83, ...rest]), h2Field("content-type", "application/grpc"), h2Field("te", "trailers")];
    const questions = Buffer.concat(Array(2_000).fill(frame(Buffer.from([0x3a, 0]))));
    const connection = await raw([
      h2Frame(1, 0x4, 1, Buffer.concat(post)),
      ...Array(20).fill(h2Frame(0, 0, 1, questions)),
    ]);
    await connection.closed;
  });

  test("streams beyond the limit are served in turn", async () => {
    const session = await h2Connect(service.url);
    const headers = { "content-type": "application/grpc", authorization: `Bearer ${token}` };
    const path = "/platform.sdk.v1.DiscoveryService/WhoAmI";
    const answers = await Promise.all(
      Array.from({ length: 600 }, () => h2Call(session, { path, headers, body: frame(Buffer.alloc(0)) })),
    );
    expect(answers.every(({ trailers }) => trailers["grpc-status"] === "0")).toBe(true);
    await h2Close(session);
  });

  test.each([
    ["a tunnel", { ":method": "CONNECT", ":authority": "a:1" }, 405],
    ["an undefined expectation", { ":path": "/v1/sdk/whoami", expect: "miracles" }, 417],
  ])("%s is refused in the envelope", async (_name, headers, status) => {
    const session = await h2Connect(service.url);
    const stream = session.request(headers, { endStream: true });
    const answered = once(stream, "response");
    const body = JSON.parse(Buffer.concat(await stream.toArray()).toString());
    const [answer] = (await answered) as [Record<string, unknown>];
    expect(answer[":status"]).toBe(status);
    expect(body).toMatchObject({ status: "error", error: { request_id: answer["x-request-id"] } });
    await h2Close(session);
  });
});

describe("after all of it", () => {
  test("callers that send too slowly are disconnected", async () => {
    expect(refusedWith(await reluctant.slowHeaders.next())).toMatchObject({ status: 408, reason: "request_timeout" });
    await Promise.all([reluctant.silent.closed, reluctant.slowHeaders.closed, reluctant.partialPreface.closed]);
  });

  test("large bodies over the limit leave no memory taken", async () => {
    for (let i = 0; i < 20; i++) {
      expect((await onRest(Buffer.alloc(maxBodyBytes + 1, " ")))?.status).toBe(413);
      const { trailers } = await onGrpc(frame(Buffer.alloc(maxBodyBytes * 2)));
      expect(trailers["grpc-status"]).toBe("8");
    }
  });

  test("memory is back to its level", async () => {
    process.stdout.write(`resident: ${baselineBytes >> 20} MiB at first, ${service.residentBytes() >> 20} MiB now\n`);
    await expect.poll(() => service.residentBytes() - baselineBytes).toBeLessThan(192 * mebibyte);
  });
});
