/** What the log says of a call: what came of it, and at which level. */
import { once } from "node:events";
import { toBinary } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import { Health, HealthCheckRequestSchema } from "../../gen/grpc/health/v1/health_pb.ts";
import { gatewayForFile, lockStore } from "../harness/gateway.ts";
import { frame } from "../harness/grpc.ts";
import { h1Connect, h1Request } from "../harness/h1.ts";
import { h2Call, h2Connect } from "../harness/h2.ts";
import { methodOn, requestFromRest } from "../harness/methods.ts";

const gateway = await gatewayForFile();
const token = await gateway.token();

const plan = methodOn("/v1/sdk/protection-plan");
const body = JSON.stringify(sampleCalls().find(({ route }) => route === plan.restPath)?.body);

/** The line of the call with this request id, once it is there. */
async function lineOf(requestId: string): Promise<Record<string, unknown>> {
  const found = () => gateway.logged.map((line) => JSON.parse(line)).find(({ request_id }) => request_id === requestId);
  await expect.poll(found).toBeDefined();
  return found();
}

test("a call that its caller cancelled is logged as canceled, on every kind of connection", async () => {
  // The record cannot be written, so nothing is answered while the callers are there.
  using _ = lockStore(gateway);
  const headers = [`Authorization: Bearer ${token}`, "Content-Type: application/json", "X-Request-Id: gone-h1"];
  const h1 = await h1Connect(gateway.url);
  h1.write(h1Request(`POST ${plan.restPath}`, [...headers, `Content-Length: ${body.length}`], ""));
  h1.write(body.slice(0, 10));
  const h2 = await h2Connect(gateway.url);
  const call = (path: string, type: string, id: string) =>
    h2.request({
      ":method": "POST",
      ":path": path,
      "content-type": type,
      authorization: `Bearer ${token}`,
      "x-request-id": id,
      expect: "100-continue",
    });
  const rest = call(plan.restPath, "application/json", "gone-rest");
  const grpc = call(plan.rpcPath, "application/grpc", "gone-grpc");
  const connect = call(plan.rpcPath, "application/json", "gone-connect");
  await Promise.all([rest, grpc, connect].map((stream) => once(stream, "continue")));
  rest.write(body);
  grpc.write(frame(toBinary(plan.desc.input, requestFromRest(plan, JSON.parse(body)))));
  for (const stream of [rest, grpc, connect]) stream.on("error", () => {}).destroy();
  h1.destroy();
  for (const id of ["gone-h1", "gone-rest", "gone-grpc", "gone-connect"])
    expect([id, await lineOf(id)]).toMatchObject([id, { status: 499, code: "canceled", reason: "canceled" }]);
});

test("a health probe is logged at debug, other calls at info", async () => {
  const session = await h2Connect(gateway.url);
  const probe = frame(
    toBinary(HealthCheckRequestSchema, { $typeName: "grpc.health.v1.HealthCheckRequest", service: "" }),
  );
  const headers = { "content-type": "application/grpc", te: "trailers" };
  const path = `/${Health.typeName}/Check`;
  expect((await h2Call(session, { path, headers: { ...headers, "x-request-id": "probe" }, body: probe })).status).toBe(
    200,
  );
  await h2Call(session, { path: plan.rpcPath, headers: { ...headers, "x-request-id": "call" } });
  expect(await lineOf("probe")).toMatchObject({ level: "debug", rpc: "Health/Check", code: "ok" });
  expect(await lineOf("call")).toMatchObject({ level: "info", code: "unauthenticated" });
});

interface Decision {
  readonly decision_id: string;
  readonly allow: boolean;
  readonly policy_revision: string;
  readonly reasons: readonly string[];
}

test("the log line of a decision agrees with the ledger, and has nothing of the request", async () => {
  const response = await fetch(gateway.url + plan.restPath, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json", "x-request-id": "decided" },
    body,
  });
  const { decision } = (await response.json()) as { decision: Decision };
  const line = await lineOf("decided");
  expect(line).toMatchObject({
    status: 200,
    decision_id: decision.decision_id,
    allow: decision.allow,
    policy_revision: decision.policy_revision,
    reasons: decision.reasons,
  });
  expect(line.category).toBeUndefined();
  expect(decision.reasons.length).toBeGreaterThan(0);
  const { purpose, resource } = JSON.parse(body);
  expect(JSON.stringify(line)).not.toContain(purpose);
  expect(JSON.stringify(line)).not.toContain(resource.id);
});

test.each<[string, Record<string, string>, object]>([
  ["no token", { authorization: "" }, { event: "credentials_refused", reason: "missing_token" }],
  ["a bad token", { authorization: "Bearer e30.e30.e30" }, { event: "credentials_refused", reason: "invalid_token" }],
  ["another tenant", { "x-svc-tenant-id": "tenant-b" }, { event: "tenant_mismatch", tenant_id: "tenant-a" }],
])("%s is a security event", async (name, headers, event) => {
  const id = `security-${name.replaceAll(" ", "-")}`;
  const given = { authorization: `Bearer ${token}`, "x-request-id": id, ...headers };
  const sent = Object.entries(given).filter(([, value]) => value !== "");
  await fetch(`${gateway.url}/v1/sdk/whoami`, { headers: Object.fromEntries(sent) });
  expect(await lineOf(id)).toMatchObject({ category: "security", ...event });
});

test("an outage is one short line without a stack, for callers and for operators", async () => {
  {
    using _ = lockStore(gateway);
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json", "x-request-id": "outage" };
    const response = await fetch(gateway.url + plan.restPath, { method: "POST", headers, body });
    expect(response.status).toBe(503);
  }
  const line = await lineOf("outage");
  expect(line).toMatchObject({ level: "warn", reason: "store_unavailable", cause: expect.any(String) });
  expect(line.err).toBeUndefined();
  const text = JSON.stringify(line);
  expect(text).not.toContain("    at ");
  expect(text.length).toBeLessThan(700);
});
