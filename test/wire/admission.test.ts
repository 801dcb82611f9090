/** One tenant asks for more than can be done: others are served, and it gets the time of its retry. */
import { create } from "@bufbuild/protobuf";
import { afterAll, afterEach, expect, test } from "vitest";
import { Health, HealthCheckResponse_ServingStatus } from "../../gen/grpc/health/v1/health_pb.ts";
import { BulkStreamService } from "../../gen/platform/bulk/v1/streams_pb.ts";
import {
  DiscoveryService,
  GetCapabilitiesResponseSchema,
  WhoAmIResponseSchema,
} from "../../gen/platform/sdk/v1/discovery_pb.ts";
import { systemClock } from "../../src/base/clock.ts";
import { createBodyBudget } from "../../src/http/body.ts";
import { createLogger } from "../../src/telemetry/logger.ts";
import { createMetrics } from "../../src/telemetry/metrics.ts";
import { callerOf } from "../../src/transport/calls/call.ts";
import { bind } from "../../src/transport/calls/methods.ts";
import { createReport } from "../../src/transport/calls/report.ts";
import { createServer } from "../../src/transport/server.ts";
import { bareServer } from "../harness/bare-server.ts";
import { wireClients } from "../harness/clients.ts";
import { frame, refusalInTrailers } from "../harness/grpc.ts";
import { h1Connect, h1Request } from "../harness/h1.ts";
import { h2Call, h2Connect } from "../harness/h2.ts";
import { methodOn, requestFromRest } from "../harness/methods.ts";

const limits = {
  minAtOnce: 8,
  maxAtOnce: 8,
  maxStartsPerTurn: 100,
  maxRefusalsPerTurn: 2,
  stalledAfterMs: 600_000,
  maxWaiting: 12,
  maxWaitMs: 600_000,
};

let release = Promise.withResolvers<void>();
let begun = 0;
let waiting: () => number;
let placesTaken: () => number;
const logged: string[] = [];
const metrics = createMetrics({ process: false });

/** `GetCapabilities` is answered once the test says so; the token is the tenant. */
let isShort = false;
const discovery = bind(DiscoveryService, {
  async getCapabilities() {
    begun += 1;
    await release.promise;
    return create(GetCapabilitiesResponseSchema);
  },
  whoAmI: (_request, context) => create(WhoAmIResponseSchema, { caller: { tenantId: callerOf(context).tenantId } }),
  getBootstrap: () => ({}),
});
const health = bind(Health, {
  check: () => ({ status: HealthCheckResponse_ServingStatus.SERVING }),
  list: () => ({}),
  async *watch() {},
});
const streams = bind(BulkStreamService, {
  async *streamEvents() {
    yield {};
  },
  async *streamRegistrations() {},
});
const destination = { write: (line: string) => void logged.push(line) };
const logger = createLogger({ level: "info", serviceName: "test", destination });
const tenantOf = (authorization = "") => /^Bearer (hot|cool|new)$/.exec(authorization)?.[1];
const server = await createServer(
  bareServer([discovery], tenantOf, {
    unauthenticatedServices: [health],
    rpcServices: [streams],
    bodies: createBodyBudget({ maxBytes: 2 ** 26, addressOf: ({ remoteAddress }) => remoteAddress }),
    admissionLimits: limits,
    isShortOfMemory: () => isShort,
    watchAdmission: (count, places) => {
      waiting = count;
      placesTaken = places;
    },
    onAnswered: createReport(logger, metrics, systemClock),
  }),
);
const { port } = await server.listen("127.0.0.1", 0);
const url = `http://127.0.0.1:${port}`;
afterAll(async () => {
  await server.close(0);
});
afterEach(() => expect.poll(() => placesTaken()).toBe(0));

const slow = methodOn("/v1/sdk/capabilities");
const fast = methodOn("/v1/sdk/whoami");
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
async function get(path: string, token: string, init: RequestInit = {}): Promise<Response> {
  const response = await fetch(url + path, { headers: bearer(token), ...init });
  await response.text();
  return response;
}
const room = limits.maxAtOnce + limits.maxWaiting;

/** Comes in as soon as the places of earlier calls are free again, which is after their answers are out. */
async function fill(init: RequestInit = {}): Promise<Response> {
  for (;;) {
    const response = await get(slow.restPath, "hot", init);
    if (response.status !== 503) return response;
  }
}

/** Has the hot tenant ask for as much as there is room for, all of which is answered after the work. */
async function whileFull(work: () => Promise<void>): Promise<void> {
  for (const token of ["hot", "cool"]) expect((await get(fast.restPath, token)).status).toBe(200); // both are known
  begun = 0;
  release = Promise.withResolvers();
  const filling = Array.from({ length: room }, () => fill());
  try {
    // It has a part only until the other tenant's call is a second ago.
    await expect.poll(() => begun).toBe(limits.maxAtOnce);
    await expect.poll(() => waiting()).toBe(limits.maxWaiting);
    await work();
  } finally {
    release.resolve();
  }
  for (const { status } of await Promise.all(filling)) expect(status).toBe(200);
}

test("a tenant over its share is refused on every protocol with a retry time, and other tenants are served", async () => {
  const clients = wireClients(url);
  await whileFull(async () => {
    for (const client of clients) {
      const call = (method: typeof slow, token: string) =>
        client.call(method, requestFromRest(method, {}), bearer(token));
      expect([client.name, await call(slow, "hot")]).toMatchObject([
        client.name,
        { refusal: { code: "unavailable", reason: "overloaded", retryAfterSeconds: 1 } },
      ]);
      for (const token of ["cool", "new"])
        expect([client.name, await call(fast, token)]).toMatchObject([
          client.name,
          { answer: { caller: { tenant_id: token } } },
        ]);
      expect([client.name, await call(fast, "outside every exchange")]).toMatchObject([
        client.name,
        { refusal: { code: "unauthenticated", reason: "invalid_token" } },
      ]);
    }
    const refused = await get(slow.restPath, "hot");
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "1"]);
    expect(begun).toBe(limits.maxAtOnce);
  });
});

test("when memory is short, calls are refused instead of queued, and health is still answered", async () => {
  const session = await h2Connect(url);
  const headers = { "content-type": "application/grpc", te: "trailers" };
  await whileFull(async () => {
    isShort = true;
    for (const token of ["cool", "new"]) {
      const refused = await get(fast.restPath, token);
      expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "1"]);
    }
    const probe = { path: `/${Health.typeName}/Check`, headers, body: frame(new Uint8Array()) };
    expect((await h2Call(session, probe)).trailers["grpc-status"]).toBe("0");
    isShort = false;
    expect((await get(fast.restPath, "cool")).status).toBe(200);
  }).finally(() => {
    isShort = false;
  });
  // If no call waits it is not asked about: a service that is short of memory goes on.
  isShort = true;
  expect((await get(fast.restPath, "cool")).status).toBe(200);
  isShort = false;
});

test("callers who disconnect while queued free their place", async () => {
  await whileFull(async () => {});
  begun = 0;
  release = Promise.withResolvers();
  const leaving = new AbortController();
  const { signal } = leaving;
  const filling = Array.from({ length: room }, () => fill({ signal }).catch(() => "left"));
  await expect.poll(() => begun).toBe(limits.maxAtOnce);
  await expect.poll(() => waiting()).toBe(limits.maxWaiting);
  leaving.abort();
  expect(new Set(await Promise.all(filling))).toEqual(new Set(["left"]));
  await expect.poll(() => waiting()).toBe(0);
  expect((await get(fast.restPath, "hot")).status).toBe(200);
  release.resolve();
});

test("time in the queue counts for the deadline of a stream", async () => {
  const session = await h2Connect(url);
  const path = `/${BulkStreamService.typeName}/StreamEvents`;
  const headers = { "content-type": "application/grpc", te: "trailers", ...bearer("hot") };
  const open = (timeout: string) =>
    h2Call(session, { path, headers: { ...headers, "grpc-timeout": timeout }, body: frame(new Uint8Array()) });
  expect((await open("10S")).trailers["grpc-status"]).toBe("0");
  begun = 0;
  release = Promise.withResolvers();
  const filling = Array.from({ length: limits.maxAtOnce }, () => fill());
  await expect.poll(() => begun, { timeout: 10_000 }).toBe(limits.maxAtOnce);
  const queued = open("100m");
  await expect.poll(() => waiting(), { timeout: 10_000 }).toBe(1);
  const sinceMs = performance.now();
  await expect.poll(() => performance.now() - sinceMs).toBeGreaterThan(100);
  release.resolve();
  expect(refusalInTrailers((await queued).trailers)).toMatchObject({ reason: "deadline_exceeded" });
  await Promise.all(filling);
});

test("slow senders hold no place in the queue", async () => {
  expect((await get(fast.restPath, "hot")).status).toBe(200); // it is known
  const head = [`Authorization: Bearer hot`, "Content-Type: application/json", "Content-Length: 2"];
  const slowly = await Promise.all(Array.from({ length: 3 * room }, () => h1Connect(url)));
  for (const connection of slowly) connection.write(h1Request(`POST ${fast.rpcPath}`, head, "{"));
  for (let call = 0; call < 3; call++) expect((await get(fast.restPath, "hot")).status).toBe(200);
  for (const connection of slowly) connection.destroy();
});

test("refusals are counted, and logged in one short line, of which most are sampled out", async () => {
  await whileFull(async () => {
    for (let call = 0; call < 100; call++) expect((await get(slow.restPath, "hot")).status).toBe(503);
  });
  const { body } = await metrics.expose();
  const [, counted] = /^svc_calls_total\{.*protocol="rest".*reason="overloaded"\} (\d+)$/m.exec(body) ?? [];
  const lines = logged.filter((line) => line.includes('"reason":"overloaded"') && line.includes('"protocol":"rest"'));
  expect(lines.length).toBeGreaterThan(0);
  expect(lines.length).toBeLessThan(Number(counted));
  for (const line of lines) {
    expect(Buffer.byteLength(line)).toBeLessThan(512);
    expect(line).not.toContain("stack");
  }
});
