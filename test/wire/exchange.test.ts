/** What one exchange does, or has done to it, ends that exchange, at worst its connection, and nothing else. */
import { once } from "node:events";
import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import tls from "node:tls";
import { afterEach, describe, expect, test } from "vitest";
import { folderForFile } from "../harness/folder.ts";
import { type H1Connection, h1Connect, h1Exchange, h1Request, refusesConnections } from "../harness/h1.ts";
import { h2Call, h2Connect } from "../harness/h2.ts";
import { h2Fields, h2Frame, h2Preface } from "../harness/h2-frames.ts";
import { issuerForFile } from "../harness/issuer-for-file.ts";
import { forFile, forTest } from "../harness/lifetimes.ts";
import { type RunningService, serviceSettings, startService } from "../harness/process.ts";

const issuer = await issuerForFile();
const folder = folderForFile("exchange");

function start(settings: Readonly<Record<string, string>> = {}): Promise<RunningService> {
  const directory = mkdtempSync(join(folder, "service-"));
  return startService(directory, { ...serviceSettings(directory, issuer.url), ...settings });
}

/** Lines of the log that say that something went wrong. */
const failures = ({ lines }: RunningService) => lines.filter((line) => /"level":"(error|fatal)"/.test(line));
const isServed = async (url: string, path: string) => (await h1Exchange(url, h1Request(`GET ${path}`, [])))?.status;

const service = await forFile(start());

describe("any caller", () => {
  afterEach(async () => {
    expect(await isServed(service.url, "/v1/sdk/whoami")).toBe(401);
    expect(await isServed(service.opsUrl, "/livez")).toBe(200);
    expect(failures(service)).toEqual([]);
  });

  test("an HTTP/2 caller that disconnects while it waits for 100 Continue gets no answer", async () => {
    const call = {
      ":method": "POST",
      ":scheme": "http",
      ":path": "/grpc.health.v1.Health/Check",
      ":authority": "localhost",
    };
    const block = h2Fields({
      ...call,
      "content-type": "application/json",
      "content-length": "2",
      expect: "100-continue",
    });
    const calls = Array.from({ length: 20 }, (_, i) => [
      h2Frame(1, 4, 2 * i + 1, block),
      h2Frame(3, 0, 2 * i + 1, Buffer.from([0, 0, 0, 8])),
    ]).flat();
    const connection = await h1Connect(service.url);
    connection.write(Buffer.concat([h2Preface, h2Frame(4, 0, 0), ...calls]));
    const session = await h2Connect(service.url);
    for (let turn = 0; turn < 3; turn++) await h2Call(session, { path: "/grpc.health.v1.Health/Check" });
    session.destroy();
    connection.destroy();
  });

  const versions = ["0.9", "2.0"];
  const requests = ["GET /%", "GET /livez", "GET /v1/sdk/whoami", "POST /v1/sdk/evidence", "PROPFIND *"];
  test.each(versions.flatMap((version) => requests.map((line) => [line, version] as const)))(
    "%s HTTP/%s over HTTP/1 is refused",
    async (line, version) => {
      for (const url of [service.url, service.opsUrl]) {
        const answer = await h1Exchange(
          url,
          `${line} HTTP/${version}\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}`,
        );
        expect(answer?.status).toBe(400);
        expect(answer?.headers.get("connection")).toBe("close");
        expect(JSON.parse(answer?.text ?? "")).toMatchObject({
          error: { reason: "invalid_request", request_id: answer?.headers.get("x-request-id") },
        });
      }
    },
  );

  test("HTTP/1.0 is served", async () => {
    for (const [url, path] of [
      [service.url, "/v1/sdk/whoami"],
      [service.opsUrl, "/livez"],
    ] as const) // prettier
      expect((await h1Exchange(url, `GET ${path} HTTP/1.0\r\nHost: localhost\r\n\r\n`))?.status).not.toBe(400);
  });

  const check = h1Request(
    "POST /grpc.health.v1.Health/Check",
    ["Content-Type: application/json", "Content-Length: 2"],
    "{}",
  );
  const probe = h1Request("GET /grpc.health.v1.Health/Check?encoding=json&message=%7B%7D&connect=v1", []);
  const whoami = "/platform.sdk.v1.DiscoveryService/WhoAmI?encoding=json&message=%7B%7D&connect=v1";
  test.each([
    ["health checks", check],
    ["health checks by GET", probe],
    ["Connect GETs without a token", h1Request(`GET ${whoami}`, [])],
    ["calls without a token", h1Request("GET /v1/sdk/whoami", [])],
    [
      "bodies that are cut off",
      h1Request("POST /grpc.health.v1.Health/Check", ["Content-Type: application/json", "Content-Length: 9"], "{"),
    ],
  ])("100 pipelined %s, then a disconnect", async (_name, request) => {
    for (let round = 0; round < 60; round++) {
      const connection = await h1Connect(service.url);
      connection.write(request.repeat(100));
      // Gone at once, while the answers come, and after some.
      if (round % 3 === 1) await connection.next();
      if (round % 3 === 2) await new Promise(setImmediate);
      connection.destroy();
    }
  });

  const called = (id: string) => h1Request("GET /v1/sdk/whoami", [`X-Request-Id: ${id}`]);
  const unfinished = (id: string) =>
    h1Request(
      "POST /grpc.health.v1.Health/Check",
      [`X-Request-Id: ${id}`, "Content-Type: application/json", "Content-Length: 9"],
      "{",
    );
  const linesOf = (id: string) => service.lines.filter((line) => line.includes(`"request_id":"${id}"`));

  /** Leaves in the middle of a call, and waits for the line that says so. */
  async function leave(connection: H1Connection, id: string) {
    // There when what was sent after it on another connection is answered.
    await isServed(service.url, "/v1/sdk/whoami");
    connection.destroy();
    await expect.poll(() => linesOf(id).length).toBeGreaterThan(0);
  }

  test.each([
    ["first", 0, false],
    ["third", 2, false],
    ["third, two unread", 2, true],
  ])("a caller that disconnects during the %s call of its connection is logged once", async (name, calls, unread) => {
    const idOf = (what: string | number) => `leaves-${name.replaceAll(/\W/g, "-")}-${what}`;
    const connection = await h1Connect(service.url);
    for (let call = 0; call < calls; call++) {
      connection.write(called(idOf(call)));
      if (!unread) await connection.next();
    }
    connection.write(unfinished(idOf("left")));
    await leave(connection, idOf("left"));
    // A second line of the first caller would stand before the line of the next one.
    const next = await h1Connect(service.url);
    next.write(unfinished(idOf("next")));
    await leave(next, idOf("next"));
    expect(linesOf(idOf("left"))).toEqual([expect.stringContaining('"status":499')]);
  });
});

const fixtures = join(import.meta.dirname, "../unit/config/fixtures");
const secure = await forFile(
  start({ SVC_TLS_CERT: join(fixtures, "server.crt.pem"), SVC_TLS_KEY: join(fixtures, "server.key.pem") }),
);

describe("over TLS", () => {
  afterEach(() => expect(failures(secure)).toEqual([]));

  async function connected(protocol: string): Promise<tls.TLSSocket> {
    const port = Number(new URL(secure.url).port);
    const socket = tls.connect({ port, rejectUnauthorized: false, ALPNProtocols: [protocol] });
    await once(socket, "secureConnect");
    return socket;
  }

  test("unknown versions are refused as well", async () => {
    for (let round = 0; round < 3; round++) {
      const socket = await connected("http/1.1");
      socket.write("GET /% HTTP/2.0\r\n\r\n");
      const [answer] = await once(socket.setEncoding("latin1"), "data");
      expect(answer).toMatch(/^HTTP\/1\.1 400 /);
      socket.destroy();
    }
  });

  const types = ["application/grpc", "application/grpc-web", "application/proto", "application/connect+proto"];
  const codes = Array.from({ length: 14 }, (_, code) => code);
  test.each(codes)("a peer with open streams may send GOAWAY with error %i in the same read", async (code) => {
    const path = "/platform.sdk.v1.DiscoveryService/WhoAmI";
    const call = { ":method": "POST", ":scheme": "https", ":path": path, ":authority": "localhost", te: "trailers" };
    const headers = (type: string, streamId: number) =>
      h2Frame(1, 4, streamId, h2Fields({ ...call, "content-type": type }));
    for (const first of types) {
      for (const second of types) {
        const socket = await connected("h2");
        const leaving = h2Frame(7, 0, 0, Buffer.from([0, 0, 0, 0, 0, 0, 0, code]));
        socket.write(Buffer.concat([h2Preface, h2Frame(4, 0, 0), headers(first, 1), headers(second, 3), leaving]));
        // The server closes the connection at once, or answers first if the peer reports no error.
        socket.on("error", () => {}).resume();
        await (code === 0 ? once(socket, "data") : once(socket, "close"));
        socket.destroy();
      }
    }
    (await connected("h2")).destroy();
  });
});

test("during shutdown, HTTP/1.1 answers close their connection", async () => {
  const service = await forTest(start());
  const [single, pair, early] = await Promise.all([
    h1Connect(service.url),
    h1Connect(service.url),
    h1Connect(service.url),
  ]);
  const begun = h1Request(
    "POST /grpc.health.v1.Health/Check",
    ["Content-Type: application/json", "Content-Length: 2"],
    "{",
  );
  single.write(begun);
  pair.write(h1Request("GET /v1/sdk/whoami", []));
  expect((await pair.next())?.headers.get("connection")).toBe("keep-alive");
  pair.write(begun);
  // Of a connection that may become one of either protocol, nothing is known to drain.
  early.write("P");
  // All are under way, as far as a caller can know, when this one is answered.
  await h1Exchange(service.url, h1Request("GET /v1/sdk/whoami", []));
  service.child.kill("SIGTERM");
  // Once it takes no more connections it drains.
  await expect.poll(() => refusesConnections(service.url)).toBe(true);
  single.write("}");
  early.write(`${begun.slice(1)}}`);
  expect((await early.next())?.headers.get("connection")).toBe("close");
  await early.closed;
  pair.write(`}${h1Request("GET /v1/sdk/whoami", [])}`);
  expect((await single.next())?.headers.get("connection")).toBe("close");
  await single.closed;
  // One that calls again before it has its answer gets both, and the last one says so.
  const answers = [await pair.next(), await pair.next()];
  expect(answers.findLast((answer) => answer !== undefined)?.headers.get("connection")).toBe("close");
  await pair.closed;
  expect(await service.ended).toEqual({ code: 0, signal: null });
});

test("callers with persistent connections lose no call when the service stops", async () => {
  const service = await forTest(start());
  const request = h1Request("GET /v1/sdk/whoami", []);
  const connections = await Promise.all(Array.from({ length: 32 }, () => h1Connect(service.url)));
  const call = async (connection: H1Connection) => {
    connection.write(request);
    return (await connection.next())?.headers.get("connection");
  };
  // A connection that the service has not accepted when it stops is none that its caller keeps.
  expect(new Set(await Promise.all(connections.map(call)))).toEqual(new Set(["keep-alive"]));
  const lastAnswers = connections.map(async (connection) => {
    for (;;) {
      const answer = await call(connection);
      if (answer !== "keep-alive") return answer;
    }
  });
  service.child.kill("SIGTERM");
  expect(new Set(await Promise.all(lastAnswers))).toEqual(new Set(["close"]));
  expect(await service.ended).toEqual({ code: 0, signal: null });
});

const defects = new URL("../fixtures/defects.ts", import.meta.url);
const failing = await forFile(start({ NODE_OPTIONS: `--import=${defects}` }));

describe("an exception", () => {
  const connectionsEnded = () => failures(failing).filter((line) => line.includes("connection ended")).length;

  describe.each([
    "a throw",
    "a tick",
    "a timer",
    "a rejection",
    "a listener of an abort",
    "a listener of the end",
    "an error without a listener",
  ])("%s", (name) => {
    test.each(["url", "opsUrl"] as const)("in HTTP/1.1 ends its own connection only (%s)", async (listener) => {
      const before = connectionsEnded();
      const path = listener === "url" ? "/v1/sdk/whoami" : "/livez";
      const [guilty, other] = await Promise.all([h1Connect(failing[listener]), h1Connect(failing[listener])]);
      guilty.write(h1Request(`GET ${path}`, [`X-Defect: ${name}`]));
      await guilty.closed;
      other.write(h1Request(`GET ${path}`, []));
      expect((await other.next())?.status).toBeDefined();
      other.destroy();
      await expect.poll(connectionsEnded).toBe(before + 1);
    });

    test("in HTTP/2 ends its own connection only", async () => {
      const before = connectionsEnded();
      const [guilty, other] = await Promise.all([h2Connect(failing.url), h2Connect(failing.url)]);
      const gone = new Promise((resolve) => guilty.once("close", resolve));
      void h2Call(guilty, { method: "GET", path: "/v1/sdk/whoami", headers: { "x-defect": name } });
      await gone;
      expect((await h2Call(other, { method: "GET", path: "/v1/sdk/whoami" })).status).toBe(401);
      other.destroy();
      await expect.poll(connectionsEnded).toBe(before + 1);
    });
  });

  test("of a library that no longer listens for errors ends its own exchange only", async () => {
    const before = failures(failing).length;
    const watches = () => failing.lines.filter((line) => line.includes('"rpc":"Health/Watch"')).length;
    const known = watches();
    const connection = await h1Connect(failing.url);
    // Its answer goes on, so that the one behind it waits, and that request is not read.
    const type = ["Content-Type: application/connect+json", "Content-Length: 7"];
    const watch = h1Request("POST /grpc.health.v1.Health/Watch", type, "\0\0\0\0\u0002{}");
    connection.write(watch + h1Request("GET /v1/sdk/whoami", ["X-Defect: a library that listens no longer"]));
    // Both are under way when another one is answered.
    expect(await isServed(failing.url, "/v1/sdk/whoami")).toBe(401);
    connection.destroy();
    await expect.poll(watches).toBe(known + 1);
    expect(await isServed(failing.url, "/v1/sdk/whoami")).toBe(401);
    expect(failures(failing)).toHaveLength(before);
  });

  test("as an unhandled rejection in a call, later or in shared work, ends no connection", async () => {
    const connection = await h1Connect(failing.url);
    connection.write(h1Request("GET /v1/sdk/whoami", ["X-Defect: a refusal that no caller awaits"]));
    expect((await connection.next())?.status).toBe(401);
    await expect.poll(() => failures(failing).filter((line) => line.includes("reached no caller"))).toHaveLength(1);
    connection.write(h1Request("GET /v1/sdk/whoami", []));
    expect((await connection.next())?.status).toBe(401);
    connection.destroy();
  });

  test("outside every exchange stops the service", async () => {
    await h1Exchange(failing.url, h1Request("GET /v1/sdk/whoami", ["X-Defect: outside every exchange"]));
    expect(await failing.ended).toEqual({ code: 1, signal: null });
    expect(failures(failing).filter((line) => line.includes('"level":"fatal"'))).toHaveLength(1);
  });
});
