import { type Client, createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import { credentials, Client as GrpcClient, type ServiceError as GrpcError, status } from "@grpc/grpc-js";
import { describe, expect, onTestFinished, test } from "vitest";
import { Health, HealthCheckResponse_ServingStatus as Status } from "../../gen/grpc/health/v1/health_pb.ts";
import { gatewayForFile, startGateway } from "../harness/gateway.ts";
import { startStaticIssuer } from "../harness/issuer.ts";
import { forTest } from "../harness/lifetimes.ts";
import { newTestKey } from "../harness/tokens.ts";

const protectionService = "platform.sdk.v1.ProtectionService";
const gateway = await gatewayForFile();
// The issuer's keys are fetched while the service listens already.
const abort = new AbortController();
for await (const { status } of healthOf(gateway.url).watch({}, { signal: abort.signal })) {
  if (status === Status.SERVING) break;
}
abort.abort();

function healthOf(url: string): Client<typeof Health> {
  return createClient(Health, createGrpcTransport({ baseUrl: url }));
}

describe("Check", () => {
  const transports = {
    grpc: () => createGrpcTransport({ baseUrl: gateway.url }),
    grpc_web: () => createGrpcWebTransport({ baseUrl: gateway.url, httpVersion: "1.1" }),
    connect: () => createConnectTransport({ baseUrl: gateway.url, httpVersion: "1.1" }),
  };
  test.each(Object.entries(transports))("answers without credentials over %s", async (_name, transport) => {
    const health = createClient(Health, transport());
    for (const service of ["", protectionService, "platform.sdk.v1.DiscoveryService"]) {
      expect(await health.check({ service })).toMatchObject({ status: Status.SERVING });
    }
    await expect(health.check({ service: "platform.sdk.v1.SessionService" })).rejects.toMatchObject({ code: 5 });
  });

  test("lists the state of every public service", async () => {
    const { statuses } = await healthOf(gateway.url).list({});
    expect(Object.keys(statuses).sort()).toEqual([
      "",
      "platform.sdk.v1.DiscoveryService",
      "platform.sdk.v1.EvidenceService",
      protectionService,
      "platform.sdk.v1.RegistrationService",
    ]);
  });

  test("refuses a message that is no protobuf, or too large, with the usual errors", async () => {
    const send = (body: Uint8Array) =>
      fetch(`${gateway.url}/grpc.health.v1.Health/Check`, {
        method: "POST",
        headers: { "content-type": "application/proto" },
        body,
      });
    for (const [body, code] of [
      [Uint8Array.of(0x0a, 0x7f), "invalid_argument"],
      [new Uint8Array(5000), "resource_exhausted"],
    ] as const) {
      expect(await (await send(body)).json()).toMatchObject({ code });
    }
  });
});

describe("Watch", () => {
  test("sends the state at once, follows the issuer's keys, and ends with the service", async () => {
    const issuer = await forTest(startStaticIssuer([newTestKey("ES256", "key-1").publicJwk]));
    issuer.answer = (_path, response) => response.writeHead(503).end();
    const watched = await startGateway({ env: { SVC_OIDC_ISSUER: issuer.url } });
    const watching = healthOf(watched.url).watch({ service: "" })[Symbol.asyncIterator]();
    const next = async () => (await watching.next()).value?.status;
    expect(await next()).toBe(Status.NOT_SERVING);
    expect(await healthOf(watched.url).check({ service: protectionService })).toMatchObject({
      status: Status.NOT_SERVING,
    });
    issuer.answer = undefined;
    expect(await next()).toBe(Status.SERVING);
    const last = next();
    expect(await watched.app.close()).toBe(true);
    expect([await last, await next()]).toEqual([Status.NOT_SERVING, undefined]);
    await watched.issuer.stop();
  });

  test("refuses a message that is no protobuf with the usual error", async () => {
    const client = new GrpcClient(new URL(gateway.url).host, credentials.createInsecure());
    onTestFinished(() => client.close());
    const raw = (bytes: Uint8Array) => Buffer.from(bytes);
    const stream = client.makeServerStreamRequest("/grpc.health.v1.Health/Watch", raw, raw, Uint8Array.of(0x0a, 0x7f));
    const error = await new Promise<GrpcError>((resolve) => stream.once("error", resolve));
    expect(error).toMatchObject({ code: status.INVALID_ARGUMENT, details: "message is not valid protobuf" });
    expect(error.metadata.get("grpc-status-details-bin")).toHaveLength(1);
  });

  test("answers SERVICE_UNKNOWN for an unknown name, and continues", async () => {
    const abort = new AbortController();
    const stream = healthOf(gateway.url).watch({ service: "nobody" }, { signal: abort.signal });
    const iterator = stream[Symbol.asyncIterator]();
    expect((await iterator.next()).value).toMatchObject({ status: Status.SERVICE_UNKNOWN });
    const next = iterator.next();
    abort.abort();
    await expect(next).rejects.toMatchObject({ code: 1 });
  });
});
