/**
 * Callers without credentials who hold all that they can, under whatever spelling of a path, and callers who vanish:
 * tokens that the service has never seen are served all the while, and no place stays taken.
 */
import net from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import { defaultAdmissionLimits } from "../../src/http/admission.ts";
import { gatewayForFile, inProgress, metricSum, rest } from "../harness/gateway.ts";
import { h1Exchange, h1Request } from "../harness/h1.ts";
import { h2Call, h2Close, h2Connect } from "../harness/h2.ts";
import { h2Fields, h2Frame, h2NoWindow, h2Raw } from "../harness/h2-frames.ts";
import { issuerForFile } from "../harness/issuer-for-file.ts";

const tenants = ["tenant-a", "tenant-b"];
const [dataFrame, headersFrame, resetFrame] = [0, 1, 3];
const [endsStream, endsHeaders] = [0x1, 0x4];

let minted = 0;

const issuer = await issuerForFile();
// On a busy machine too, who waits for longer waits for places that are held.
const admission = { ...defaultAdmissionLimits, maxWaitMs: 10_000 };
const gateway = await gatewayForFile({ env: { SVC_OIDC_ISSUER: issuer.url }, overrides: { admission } });

function freshToken(tenant: string): string {
  const scope = "platform-api.access policy.read evidence.write";
  return issuer.token({ tenant_id: tenant, scope, jti: `fresh-${minted++}` });
}

async function whoami(token: string): Promise<number> {
  return (await rest(`${gateway.url}/v1/sdk/whoami`, { token })).status;
}

/** Statuses of calls of both tenants, each with a token that was never shown before, while both go on with known ones. */
async function freshCalls(): Promise<number[]> {
  const known = tenants.map(freshToken);
  let isOver = false;
  const knownCalls = known.map(async (token) => {
    do expect(await whoami(token)).toBe(200);
    while (!isOver);
  });
  const fresh = Array.from({ length: 33 }, (_, i) => whoami(freshToken(tenants[i % tenants.length] as string)));
  const statuses = await Promise.all(fresh);
  isOver = true;
  await Promise.all(knownCalls);
  return statuses;
}

/** Calls that are over. */
const answers = () => metricSum(gateway, /^svc_calls_total\{/);

/** Opens streams on one connection, none of whose answers may have a byte of body. Resolves once 16, or all, have their heads. */
async function unreadStreams(count: number, path: string, method: string, body?: Uint8Array, from?: string) {
  let heads = 0;
  const counted = { resets: 0 };
  const all = Promise.withResolvers<void>();
  const onFrame = (type: number) => {
    if (type === headersFrame) heads += 1;
    if (type === resetFrame) counted.resets += 1;
    if (heads >= Math.min(count, 16)) all.resolve();
  };
  const socket = h2Raw(gateway.url, onFrame, {
    settings: h2NoWindow,
    ...(from !== undefined && { localAddress: from }),
  });
  onTestFinished(() => void socket.destroy());
  const fields = { ":method": method, ":scheme": "http", ":path": path, ":authority": "localhost" };
  const types = { "content-type": "application/grpc", te: "trailers" };
  const block = h2Fields(body === undefined ? fields : { ...fields, ...types });
  for (let i = 0; i < count; i++) {
    const id = 2 * i + 1;
    socket.write(h2Frame(headersFrame, endsHeaders | (body === undefined ? endsStream : 0), id, block));
    if (body !== undefined) socket.write(h2Frame(dataFrame, endsStream, id, body));
  }
  await all.promise;
  return counted;
}

describe("new tokens are served beside", () => {
  const served = Array.from({ length: 33 }, () => 200);

  test.each(["/", "/v1/sdk/whoami", "/nothing/here"])("streams with a window of 0 on %s", async (path) => {
    await unreadStreams(20, path, "GET");
    expect(await freshCalls()).toEqual(served);
  });

  test("pipelined connections that do not read", async () => {
    const requests = h1Request("GET /openapi.json", []).repeat(200);
    const { hostname, port } = new URL(gateway.url);
    const sockets = Array.from({ length: 24 }, () =>
      net
        .connect(Number(port), hostname)
        .on("error", () => {})
        .pause(),
    );
    onTestFinished(() => sockets.forEach((socket) => void socket.destroy()));
    for (const socket of sockets) socket.write(requests);
    // Nothing more is answered once nothing more of an answer can be sent.
    await Promise.all(sockets.map((socket) => new Promise((resolve) => socket.once("readable", resolve))));
    let answered = 0;
    const more = async () => {
      const before = answered;
      answered = await answers();
      return answered - before;
    };
    await expect.poll(more, { interval: 100 }).toBe(0);
    expect(await freshCalls()).toEqual(served);
  });

  test.each([
    "/grpc.health.v1.Health/Watch",
    "/grpc.health.v1.Health/Watc%68",
    "/grpc.health.v1.Health/Watch?a=b",
    "/grpc.health.v1.Health/Watch#fragment",
  ])("watches on %s", async (path) => {
    await unreadStreams(16, path, "POST", Buffer.alloc(5));
    expect(await freshCalls()).toEqual(served);
  });
});

test("one address has a bounded number of unread answers, and no other address loses one for it", async () => {
  const others = await unreadStreams(10, "/v1/sdk/whoami", "GET", undefined, "127.0.8.1");
  const own: { readonly resets: number }[] = [];
  for (let i = 0; i < 3; i++) own.push(await unreadStreams(100, "/v1/sdk/whoami", "GET", undefined, "127.0.8.2"));
  const resets = () => own.map((streams) => streams.resets);
  // A quarter of the 1,024 that all have.
  await expect.poll(resets).toEqual([44, 0, 0]);
  expect(others.resets).toBe(0);
});

describe("a path has one spelling", () => {
  const bearer = () => `Authorization: Bearer ${freshToken("tenant-a")}`;
  const origin = () => new URL(gateway.url).host;

  test.each([
    ["percent-encoded", () => "/v1/sdk/%77ho%61mi"],
    ["in absolute form", () => `http://${origin()}/v1/sdk/whoami`],
    ["in both", () => `HTTP://${origin()}/v1/%73dk/whoami?a=%2561`],
  ])("%s it is the same route on all protocols", async (_name, target) => {
    const id = `spelt-${minted}`;
    const answer = await h1Exchange(gateway.url, h1Request(`GET ${target()}`, [bearer(), `X-Request-Id: ${id}`]));
    expect(answer?.status).toBe(200);
    await expect
      .poll(() => gateway.logged.find((text) => text.includes(id)))
      .toContain('"rpc":"DiscoveryService/WhoAmI"');
    const refused = await h1Exchange(gateway.url, h1Request(`DELETE ${target()}`, []));
    expect([refused?.status, refused?.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
  });

  test.each([
    ["a fragment", "/v1/sdk/whoami#fragment", 404],
    ["an encoded slash", "/v1/sdk%2Fwhoami", 404],
    ["an asterisk for its first slash", "*v1/sdk/whoami", 404],
    ["an asterisk alone", "*", 404],
    ["a letter encoded twice", "/v1/sdk/%2577hoami", 404],
    ["a scheme that is not HTTP", "ftp://localhost/v1/sdk/whoami", 404],
    ["no authority", "http:///v1/sdk/whoami", 400],
    ["half an authority", "http://[::1/v1/sdk/whoami", 400],
    ["user information", "http://a@localhost/v1/sdk/whoami", 400],
  ])("with %s it is no route", async (_name, target, status) => {
    expect(await h1Exchange(gateway.url, h1Request(`GET ${target}`, [bearer()]))).toMatchObject({ status });
  });

  test("over HTTP/2 in absolute form it is no route, under any scheme", async () => {
    const session = await h2Connect(gateway.url);
    const headers = {
      ":scheme": "other",
      ":authority": "localhost",
      authorization: `Bearer ${freshToken("tenant-a")}`,
    };
    const statusOf = async (path: string) => (await h2Call(session, { path, method: "GET", headers })).status;
    expect(await statusOf("/v1/sdk/whoami")).toBe(200);
    expect(await statusOf("http://localhost/v1/sdk/whoami")).toBe(404);
    expect(await statusOf("*")).toBe(404);
    await h2Close(session);
  });

  test("the path alone decides the route, whatever Host says", async () => {
    const wrong = `GET http://localhost/v1/sdk/whoami HTTP/1.1\r\nHost: not a host\r\n${bearer()}\r\n\r\n`;
    expect(await h1Exchange(gateway.url, wrong)).toMatchObject({ status: 200 });
    const two = `GET http://localhost/v1/sdk/whoami HTTP/1.1\r\nHost: a\r\nHost: b\r\n${bearer()}\r\n\r\n`;
    expect(await h1Exchange(gateway.url, two)).toMatchObject({ status: 400 });
    expect(await h1Exchange(gateway.url, h1Request("DELETE http://localhost", []))).toMatchObject({ status: 405 });
  });
});

test("clients that vanish during a body leave no place taken", async () => {
  const token = freshToken("tenant-a");
  const { route, body } = sampleCalls().find((sample) => sample.route.endsWith("/evidence")) ?? { route: "", body: {} };
  const text = JSON.stringify(body);
  const vanish = async () => {
    const session = await h2Connect(gateway.url);
    const headers = { ":method": "POST", ":path": route, authorization: `Bearer ${token}` };
    const asked = { ...headers, "content-type": "application/json", expect: "100-continue" };
    const stream = session.request(asked, { endStream: false }).on("error", () => {});
    // The gate has been passed, and the body is waited for.
    await new Promise<void>((resolve) => stream.once("continue", resolve).once("close", resolve));
    await new Promise((resolve) => stream.write(text.slice(0, text.length / 2), resolve));
    session.destroy();
  };
  for (let i = 0; i < 20; i++) await Promise.all(Array.from({ length: 20 }, vanish));
  await expect.poll(() => inProgress(gateway.opsUrl)).toBe(0);
  const statuses = await Promise.all(Array.from({ length: 12 }, () => whoami(token)));
  expect(statuses).toEqual(Array.from({ length: 12 }, () => 200));
});
