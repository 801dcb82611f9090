/**
 * Callers without credentials who hold all that they can, and callers who vanish: tokens that the service has never seen
 * are served all the while, and no place stays taken.
 */
import net from "node:net";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import { type Gateway, inProgress, rest, startGateway } from "../harness/gateway.ts";
import { h1Request } from "../harness/h1.ts";
import { h2Connect } from "../harness/h2.ts";
import { h2Field, h2Frame, h2Preface } from "../harness/h2-frames.ts";
import { type StaticIssuer, startStaticIssuer } from "../harness/issuer.ts";
import { claimsOf, mintToken, newTestKey } from "../harness/tokens.ts";

const key = newTestKey("ES256", "key-1");
const tenants = ["tenant-a", "tenant-b"];
const [headersFrame, settingsFrame, dataFrame] = [1, 4, 0];
const [acknowledges, endsStream, endsHeaders] = [0x1, 0x1, 0x4];

let issuer: StaticIssuer;
let gateway: Gateway;
let minted = 0;

beforeAll(async () => {
  issuer = await startStaticIssuer([key.publicJwk]);
  gateway = await startGateway({ env: { SVC_OIDC_ISSUER: issuer.url } });
});
afterAll(async () => {
  await gateway.stop();
  await issuer.stop();
});

function freshToken(tenant: string): string {
  const scope = "platform-api.access policy.read evidence.write";
  return mintToken(key, claimsOf(issuer.url, Date.now(), { tenant_id: tenant, scope, jti: `fresh-${minted++}` }));
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
async function answers(): Promise<number> {
  const metrics = await (await fetch(`${gateway.opsUrl}/metrics`)).text();
  return [...metrics.matchAll(/^svc_calls_total\{.*\} (\d+)$/gm)].reduce((sum, [, count]) => sum + Number(count), 0);
}

function connect(): net.Socket {
  const { hostname, port } = new URL(gateway.url);
  const socket = net.connect(Number(port), hostname).on("error", () => {});
  onTestFinished(() => void socket.destroy());
  return socket;
}

/** Opens streams on one connection, none of whose answers may have a byte of body. Resolves once 16 have their heads. */
async function unreadStreams(count: number, path: string, method: string, body?: Uint8Array): Promise<void> {
  const socket = connect();
  let received = Buffer.alloc(0);
  let heads = 0;
  const all = Promise.withResolvers<void>();
  socket.on("data", (chunk: Buffer) => {
    received = Buffer.concat([received, chunk]);
    for (let end = 0; received.length >= 9; received = received.subarray(end)) {
      end = 9 + received.readUIntBE(0, 3);
      if (received.length < end) return;
      if (received[3] === settingsFrame && ((received[4] as number) & acknowledges) === 0)
        socket.write(h2Frame(settingsFrame, acknowledges, 0));
      if (received[3] === headersFrame) heads += 1;
      if (heads === 16) all.resolve();
    }
  });
  const fields = { ":method": method, ":scheme": "http", ":path": path, ":authority": "localhost" };
  const types = { "content-type": "application/grpc", te: "trailers" };
  const block = Buffer.concat(
    Object.entries(body === undefined ? fields : { ...fields, ...types }).map(([name, value]) => h2Field(name, value)),
  );
  // SETTINGS_INITIAL_WINDOW_SIZE 0
  socket.write(Buffer.concat([h2Preface, h2Frame(settingsFrame, 0, 0, Buffer.from([0, 4, 0, 0, 0, 0]))]));
  for (let i = 0; i < count; i++) {
    const id = 2 * i + 1;
    socket.write(h2Frame(headersFrame, endsHeaders | (body === undefined ? endsStream : 0), id, block));
    if (body !== undefined) socket.write(h2Frame(dataFrame, endsStream, id, body));
  }
  await all.promise;
}

describe("tokens that were never shown before are served beside", () => {
  const served = Array.from({ length: 33 }, () => 200);

  test.each(["/", "/v1/sdk/whoami", "/nothing/here"])("streams with a window of 0 on %s", async (path) => {
    await unreadStreams(20, path, "GET");
    expect(await freshCalls()).toEqual(served);
  });

  test("pipelined connections that do not read", async () => {
    const requests = h1Request("GET /openapi.json", []).repeat(200);
    const sockets = Array.from({ length: 24 }, () => connect().pause());
    for (const socket of sockets) socket.write(requests);
    // Nothing more is answered once nothing more of an answer can be sent.
    await Promise.all(sockets.map((socket) => new Promise((resolve) => socket.once("readable", resolve))));
    let answered = 0;
    const more = async () => {
      const before = answered;
      answered = await answers();
      return answered - before;
    };
    await expect.poll(more, { timeout: 20_000, interval: 100 }).toBe(0);
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

test("clients that vanish in the middle of a body leave no place taken", async () => {
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
