/** A refusal comes before the body is read: the caller can read the answer, and cannot hold the stream open. */
import { once } from "node:events";
import http from "node:http";
import http2 from "node:http2";
import net from "node:net";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { gatewayForFile, startGateway } from "../harness/gateway.ts";
import { frame } from "../harness/grpc.ts";
import { h1Connect, h1Request } from "../harness/h1.ts";
import { h2Fields, h2Frame, h2Raw } from "../harness/h2-frames.ts";
import { forTest } from "../harness/lifetimes.ts";

const gateway = await gatewayForFile();
const session = http2.connect(gateway.url);
afterAll(() => session.close());

test("over HTTP/2 the stream outlives the answer for a limited time, for a body on its way", async () => {
  // Without credentials, and keeping the body back.
  const stream = session.request({ ":method": "POST", ":path": "/v1/sdk/evidence" }, { endStream: false });
  const [headers] = await once(stream, "response");
  expect(headers[":status"]).toBe(401);
  await once(stream.resume(), "end");
  const answeredAt = performance.now();
  await once(stream, "close");
  expect(performance.now() - answeredAt).toBeGreaterThan(1_000);
  expect(stream.rstCode).toBe(http2.constants.NGHTTP2_NO_ERROR);
});

describe("gRPC", () => {
  /** Frame types (RFC 9113 §6). */
  const headers = 1;
  const resetStream = 3;
  const goAway = 7;

  /** Streams of a client that opens another as soon as one has its trailers, and never ends its own half. */
  async function openStreams(count: number, fields: Readonly<Record<string, string>>, body: Uint8Array) {
    const block = h2Fields(fields);
    const resets: number[] = [];
    let isEnded = false;
    let streamId = 1;
    const open = () => {
      socket.write(Buffer.concat([h2Frame(headers, 0x4, streamId, block), h2Frame(0, 0, streamId, body)]));
    };
    const over = Promise.withResolvers<void>();
    const onFrame = (type: number, flags: number, id: number) => {
      // For this client the stream is over, and its next one is open before the reset is read.
      if (type === headers && (flags & 1) !== 0) {
        streamId += 2;
        if (streamId < 2 * count) open();
      }
      if (type === resetStream) resets.push(id);
      if (type === goAway) isEnded = true;
      if (isEnded || resets.length === count) over.resolve();
    };
    const socket = h2Raw(gateway.url, onFrame).on("close", over.resolve);
    onTestFinished(() => void socket.destroy());
    open();
    await over.promise;
    return { resets, isEnded };
  }

  test.each([
    ["as a bare stream, for want of a token", "application/grpc", false],
    ["as a request, for want of a token", "Application/grpc", false],
    ["as a bare stream, for its size", "application/grpc", true],
    ["as a request, for its size", "Application/grpc", true],
  ])("a stream that is refused %s is reset with its trailers, and frees its place", async (...given) => {
    const [, contentType, isAuthorized] = given;
    // More than may be open at once.
    const count = 300;
    const { resets, isEnded } = await openStreams(
      count,
      {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/platform.sdk.v1.ProtectionService/PlanProtection",
        ":authority": "localhost",
        "content-type": contentType,
        ...(isAuthorized && { authorization: `Bearer ${await gateway.token()}`, "content-length": "1000000" }),
      },
      frame(Buffer.alloc(0), 0, 999_995),
    );
    expect(isEnded).toBe(false);
    expect(resets).toEqual(Array.from({ length: count }, (_, i) => 2 * i + 1));
    const reason = isAuthorized ? "body_too_large" : "missing_token";
    const line = JSON.parse(gateway.logged.filter((text) => text.includes('"protocol":"grpc"')).at(-1) ?? "");
    expect(line).toMatchObject({ status: 200, reason });
  });
});

describe("HTTP/1.1", () => {
  const protocols = [
    ["rest", "/v1/sdk/protection-plan", "application/json"],
    ["connect", "/platform.sdk.v1.ProtectionService/PlanProtection", "application/json"],
    ["gRPC-Web", "/platform.sdk.v1.ProtectionService/PlanProtection", "application/grpc-web+proto"],
  ] as const;
  const next = h1Request("GET /v1/sdk/nothing", []);
  /** Of gRPC-Web, a message that says to be larger than any. */
  const filler = Buffer.alloc(300 * 1024);

  describe.each(protocols)("%s", (_protocol, path, type) => {
    test("a chunked body that is refused before its end ends the connection", async () => {
      const authorization = `Authorization: Bearer ${await gateway.token()}`;
      const connection = await h1Connect(gateway.url);
      const chunked = [authorization, `Content-Type: ${type}`, "Transfer-Encoding: chunked"];
      connection.write(h1Request(`POST ${path}`, chunked));
      connection.write(`${filler.length.toString(16)}\r\n`);
      connection.write(filler);
      const answer = await connection.next();
      expect(answer?.headers.get("connection")).toBe("close");
      // The rest is swallowed, and nothing behind it is served.
      connection.write(`\r\n5\r\nhello\r\n0\r\n\r\n${next}`);
      expect(await connection.next()).toBeUndefined();
      await connection.closed;
    });

    test("a short body on its way is read, and the next call served", async () => {
      const connection = await h1Connect(gateway.url);
      connection.write(h1Request(`POST ${path}`, [`Content-Type: ${type}`, "Content-Length: 10"], "hello"));
      expect((await connection.next())?.headers.get("connection")).not.toBe("close");
      connection.write(`world${next}`);
      expect(await connection.next()).toMatchObject({ status: 404 });
      connection.destroy();
    });

    test("a short body that came too late is read, and the next call served", async () => {
      const hasty = await forTest(startGateway({ overrides: { limits: { bodyTimeoutMs: 100 } } }));
      const connection = await h1Connect(hasty.url);
      const bearer = `Authorization: Bearer ${await hasty.token()}`;
      // The prefix of a message of five bytes, which never come in time.
      const prefix = frame(Buffer.alloc(0), 0, 5).toString("latin1");
      connection.write(h1Request(`POST ${path}`, [bearer, `Content-Type: ${type}`, "Content-Length: 10"], prefix));
      expect((await connection.next())?.text).toContain(
        "did not arrive in time".replaceAll(" ", type.includes("web") ? "%20" : " "),
      );
      connection.write(`world${next}`);
      expect(await connection.next()).toMatchObject({ status: 404 });
      connection.destroy();
    });
  });

  test("a short body that a stream refused in part is read, and the next call served", async () => {
    const connection = await h1Connect(gateway.url);
    const headers = ["Content-Type: application/connect+proto", "Content-Length: 100005"];
    connection.write(h1Request("POST /grpc.health.v1.Health/Watch", headers));
    // Its prefix says that the message is larger than any.
    connection.write(frame(Buffer.alloc(0), 0, 1 << 30));
    expect((await connection.next())?.text).toContain("resource_exhausted");
    connection.write(Buffer.concat([Buffer.alloc(100_000), Buffer.from(next)]));
    expect(await connection.next()).toMatchObject({ status: 404 });
    connection.destroy();
  });

  test.each([
    ["long", ["Content-Length: 1000000"]],
    ["waiting for 100 Continue", ["Content-Length: 10", "Expect: 100-continue"]],
  ])("a body that is %s may never arrive", async (_what, headers) => {
    const connection = await h1Connect(gateway.url);
    connection.write(h1Request("POST /v1/sdk/protection-plan", ["Content-Type: application/json", ...headers]));
    expect((await connection.next())?.headers.get("connection")).toBe("close");
    connection.destroy();
  });

  test("a caller of another version that sends its body late and does not close is disconnected", async () => {
    const { hostname, port } = new URL(gateway.url);
    const socket = net.connect({ host: hostname, port: Number(port), allowHalfOpen: true }).on("error", () => {});
    onTestFinished(() => void socket.destroy());
    socket.write("POST / HTTP/2.0\r\nHost: localhost\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    expect((await once(socket, "data")).toString()).toMatch(/^HTTP\/1.1 400 /);
    socket.write("hello");
    await expect
      .poll(() => {
        // Line breaks before a request mean nothing (RFC 9112 §2.2), but cannot be sent to a closed connection.
        socket.write("\r\n");
        return socket.destroyed;
      })
      .toBe(true);
  });

  test("the caller reads the answer after it sent its whole body", async () => {
    const response = await new Promise<http.IncomingMessage>((resolve, reject) => {
      const request = http.request(`${gateway.url}/v1/sdk/protection-plan`, {
        method: "POST",
        headers: { "content-type": "application/json" },
      });
      request.on("response", resolve).on("error", reject);
      for (let i = 0; i < 100; i++) request.write(filler);
      request.end();
    });
    expect(response.statusCode).toBe(401);
    response.resume();
    await once(response, "end");
  });
});
