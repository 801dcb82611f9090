/** Quotas of tenants over the wire: what is answered beyond them, on every protocol. */
import { join } from "node:path";
import { toBinary } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { defaultClient } from "../../dev/issuer.ts";
import { sampleCalls } from "../../dev/requests.ts";
import { wireClients } from "../harness/clients.ts";
import { folderForFile, replaceFile } from "../harness/folder.ts";
import { gatewayForFile, metricSum, type RestAnswer, rest } from "../harness/gateway.ts";
import { frame, refusalInTrailers } from "../harness/grpc.ts";
import { h2Call, h2Connect } from "../harness/h2.ts";
import { methodOn, requestFromRest } from "../harness/methods.ts";

const hour = 3_600;
const planRoute = "/v1/sdk/protection-plan";
const registerRoute = "/v1/sdk/artifact-register";
const bodyOf = (route: string) => sampleCalls().find((call) => call.route === route)?.body as object;

const scopes = ["platform-api.access", "policy.read", "artifacts.write", "evidence.write"];
const clientOf = (tenantId: string) => ({ ...defaultClient(), clientId: tenantId, tenantId, scopes });

/** `RateLimit` as a map from quota to what is left. */
function remainingIn(headers: Headers): Record<string, number> {
  const items = [...(headers.get("ratelimit") ?? "").matchAll(/"([a-z-]+)";r=(\d+);t=\d+/g)];
  return Object.fromEntries(items.map(([, name, left]) => [name, Number(left)]));
}

const tenants = ["requests", "records", "bytes", "repeats", "other", "changed", "bad"] as const;
const limited = (name: string, limit: number) => ({ [name]: { limit, period_seconds: hour } });
const table = {
  default: limited("requests", 100_000),
  tenants: {
    requests: limited("requests", 5),
    records: limited("records", 3),
    repeats: limited("records", 3),
    bytes: { ...limited("artifact_bytes", 64 * 1024), requests: null },
    changed: limited("requests", 2),
    bad: limited("requests", 2),
  },
};
const file = join(folderForFile("quotas"), "quotas.json");
const write = (content: unknown) => replaceFile(file, JSON.stringify(content));
write(table);
const gateway = await gatewayForFile({ issuer: { clients: tenants.map(clientOf) }, env: { SVC_QUOTAS: file } });

const tokenOf = (tenant: (typeof tenants)[number]) => gateway.token({ clientId: tenant });
const leaves = () => metricSum(gateway, /^svc_append_batch_records_sum /);

test("states the remaining quota in each answer, and refuses beyond it with a retry time", async () => {
  const token = await tokenOf("requests");
  const answers: RestAnswer[] = [];
  for (let i = 0; i < 7; i++) answers.push(await rest(`${gateway.url}/v1/sdk/whoami`, { token }));
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 429, 429]);
  expect(answers.map(({ headers }) => remainingIn(headers).requests)).toEqual([4, 3, 2, 1, 0, 0, 0]);
  for (const { headers } of answers) expect(headers.get("ratelimit-policy")).toBe(`"requests";q=5;w=${hour}`);
  const { body, headers } = answers[6] as RestAnswer;
  expect(body.error).toMatchObject({ code: "resource_exhausted", reason: "rate_limited" });
  expect(body.error.retry_after_seconds).toBeGreaterThan(hour - 60);
  expect(headers.get("retry-after")).toBe(String(body.error.retry_after_seconds));
  const metrics = await (await fetch(`${gateway.opsUrl}/metrics`)).text();
  expect(metrics).toContain('svc_quota_calls_total{quota="requests",result="refused"} 2');
});

test("refuses on every protocol, without a record", async () => {
  const token = await tokenOf("records");
  const clients = wireClients(gateway.url);
  const method = methodOn(planRoute);
  const request = requestFromRest(method, bodyOf(planRoute));
  const call = (client: (typeof clients)[number]) => client.call(method, request, { authorization: `Bearer ${token}` });
  for (const client of clients.slice(0, 3)) expect(await call(client)).toHaveProperty("answer");
  const before = await leaves();
  for (const client of clients) {
    const outcome = await call(client);
    expect(outcome, client.name).toMatchObject({
      refusal: { code: "resource_exhausted", reason: "rate_limited", retryAfterSeconds: expect.any(Number) },
    });
  }
  expect(await leaves()).toBe(before);
  // What leaves no record is not refused for want of records.
  expect((await rest(`${gateway.url}/v1/sdk/whoami`, { token })).status).toBe(200);
});

test("states the quota in headers on Connect, and in metadata on gRPC", async () => {
  const token = await tokenOf("other");
  const method = methodOn("/v1/sdk/whoami");
  const headers = { authorization: `Bearer ${token}` };
  const policy = `"requests";q=100000;w=${hour}`;
  const connect = await fetch(gateway.url + method.rpcPath, {
    method: "POST",
    headers: { ...headers, "content-type": "application/json" },
    body: "{}",
  });
  expect(connect.status).toBe(200);
  expect(connect.headers.get("ratelimit-policy")).toBe(policy);
  expect(remainingIn(connect.headers).requests).toBeLessThan(100_000);
  const session = await h2Connect(gateway.url);
  const grpc = { ...headers, "content-type": "application/grpc", te: "trailers" };
  const answer = await h2Call(session, { path: method.rpcPath, headers: grpc, body: frame(new Uint8Array()) });
  expect(answer.trailers["grpc-status"]).toBe("0");
  expect(answer.headers["ratelimit-policy"]).toBe(policy);
  // A refusal says it too.
  const used = { ...grpc, authorization: `Bearer ${await tokenOf("requests")}` };
  const refused = await h2Call(session, { path: method.rpcPath, headers: used, body: frame(new Uint8Array()) });
  expect(refused.headers.ratelimit).toMatch(/^"requests";r=\d+;t=\d+$/);
  expect(refusalInTrailers(refused.trailers)?.reason).toBe("rate_limited");
});

test("checks credentials, tenant and scopes before the quota, and the body after it", async () => {
  const token = await tokenOf("bad");
  const url = gateway.url + planRoute;
  for (let i = 0; i < 3; i++) {
    expect((await rest(url, { body: {} })).status).toBe(401);
    expect((await rest(url, { token, body: {}, headers: { "x-svc-tenant-id": "other" } })).status).toBe(403);
    const poor = await gateway.token({ clientId: "bad", scope: "platform-api.access" });
    expect((await rest(url, { token: poor, body: {} })).status).toBe(403);
  }
  // None of them counted; a body that is refused does.
  expect((await rest(url, { token, body: "{" })).status).toBe(400);
  expect((await rest(url, { token, body: "{" })).status).toBe(400);
  expect((await rest(url, { token, body: "{" })).status).toBe(429);
});

test("counts abandoned calls, and repeated calls like first ones", async () => {
  const token = await tokenOf("repeats");
  const url = gateway.url + registerRoute;
  for (let i = 0; i < 5; i++) expect((await rest(url, { token, body: "{" })).status).toBe(400);
  const once = { token, body: bodyOf(registerRoute), headers: { "idempotency-key": "the-same" } };
  const answers = [await rest(url, once), await rest(url, once), await rest(url, once), await rest(url, once)];
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429]);
  expect(answers[2]?.body.registration).toEqual(answers[0]?.body.registration);
});

test("counts the bytes of artifacts, announced or not", async () => {
  const token = await tokenOf("bytes");
  const url = gateway.url + registerRoute;
  const body = { ...bodyOf(registerRoute), artifact_digest: "own:1", artifact_object_b64: "A".repeat(40_000) };
  const { status, headers } = await rest(url, { token, body });
  expect(status).toBe(200);
  expect(headers.get("ratelimit-policy")).toBe(`"artifact-bytes";q=65536;w=${hour};qu="content-bytes"`);
  // What does not fit is refused, and what does is not.
  expect((await rest(url, { token, body })).status).toBe(429);
  expect((await rest(url, { token, body: { ...body, artifact_object_b64: "A".repeat(4_000) } })).status).toBe(200);
  // Over gRPC nothing is announced: it is counted once it is there.
  const method = methodOn(registerRoute);
  const message = toBinary(method.desc.input, requestFromRest(method, body));
  const session = await h2Connect(gateway.url);
  const grpc = { authorization: `Bearer ${token}`, "content-type": "application/grpc", te: "trailers" };
  const call = () => h2Call(session, { path: method.rpcPath, headers: grpc, body: frame(message) });
  expect((await call()).trailers["grpc-status"]).toBe("0");
  await expect.poll(async () => (await call()).trailers["grpc-status"] ?? "8").toBe("8");
  expect((await rest(url, { token, body: bodyOf(registerRoute) })).status).toBe(429);
  // Other routes do not use any.
  expect((await rest(gateway.url + planRoute, { token, body: bodyOf(planRoute) })).status).toBe(200);
});

test("reloads a changed file, and keeps the current one if the next is invalid", async () => {
  const token = await tokenOf("changed");
  const status = async () => (await rest(`${gateway.url}/v1/sdk/whoami`, { token })).status;
  expect([await status(), await status(), await status()]).toEqual([200, 200, 429]);
  write({ tenants: { changed: { requests: { limit: 0 } } } });
  await expect.poll(() => gateway.logged.some((line) => line.includes("SVC_QUOTAS"))).toBe(true);
  expect(await status()).toBe(429);
  write({ ...table, tenants: { ...table.tenants, changed: limited("requests", 1_000) } });
  await expect.poll(status).toBe(200);
});
