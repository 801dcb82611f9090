/** Bulk decisions over the wire: on every protocol and store, each item answered as its single route answers it. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import { ServerReflection } from "../../gen/grpc/reflection/v1/reflection_pb.ts";
import { PlanProtectionsResponseSchema } from "../../gen/platform/bulk/v1/decisions_pb.ts";
import { PlanProtectionRequestSchema } from "../../gen/platform/sdk/v1/protection_pb.ts";
import { type WireClient, wireClients } from "../harness/clients.ts";
import { type Gateway, type RestAnswer, rest, startGateway } from "../harness/gateway.ts";
import { methodOn, requestFromRest } from "../harness/methods.ts";
import { type TestStore, testStores } from "../harness/stores.ts";

const kinds = [
  ["/v1/bulk/protection-plans", "/v1/sdk/protection-plan"],
  ["/v1/bulk/policy-resolutions", "/v1/sdk/policy-resolve"],
  ["/v1/bulk/key-access-plans", "/v1/sdk/key-access-plan"],
] as const;

// biome-ignore lint/suspicious/noExplicitAny: members of several shapes, whose absence fails the test.
type Any = any;

const planMethod = methodOn("/v1/sdk/protection-plan");
const sampleOf = (route: string): Any => structuredClone(sampleCalls().find((call) => call.route === route)?.body);

const outcomes = ({ body }: RestAnswer) => body.items.map(({ outcome }: Any) => outcome);

/** What two answers to the same question have in common. */
function withoutIds(item: Any): Any {
  const { outcome: _, request_summary: __, service, status, caller, platform_domains, ...answer } = item;
  const { decision_id, receipt, ...decision } = answer.decision;
  return { ...answer, decision };
}

describe.each(testStores)("%s", (_name, startStore) => {
  let store: TestStore;
  let gateway: Gateway;
  let clients: readonly WireClient[];
  let token: string;
  beforeAll(async () => {
    store = await startStore();
    gateway = await startGateway({ dataDir: store.folder, env: { ...store.settings, SVC_BULK: "on" } });
    clients = wireClients(gateway.url);
    token = await gateway.token();
  }, 60_000);
  afterAll(async () => {
    for (const client of clients) client.close();
    await gateway.stop();
    await store.stop();
  });

  test.each(kinds)("%s answers as %s, in order, on every protocol", async (bulkRoute, route) => {
    const single = await rest(gateway.url + route, { token, body: sampleOf(route) });
    expect(single.status).toBe(200);
    const items = ["first", "second", "third"].map((id) => ({
      ...sampleOf(route),
      resource: { ...sampleOf(route).resource, id },
    }));
    const method = methodOn(bulkRoute);
    for (const client of clients) {
      const outcome = await client.call(method, requestFromRest(method, { items }), {
        authorization: `Bearer ${token}`,
      });
      const { answer } = outcome as { answer: Any };
      expect(answer, client.name).toMatchObject({ service: "svc-platform-api", status: "ready" });
      expect(answer.caller).toEqual(single.body.caller);
      expect(answer.platform_domains).toEqual(single.body.platform_domains);
      expect(answer.items).toHaveLength(3);
      for (const item of answer.items) {
        expect(item.outcome).toBe("answered");
        expect(withoutIds(item)).toEqual(withoutIds(single.body));
        expect(item.decision.receipt.record_id).toBe(item.decision.decision_id);
        expect(item.decision.receipt).not.toHaveProperty("record");
      }
      const indices = answer.items.map(({ decision }: Any) => decision.receipt.leaf_index);
      expect(indices).toEqual([indices[0], indices[0] + 1, indices[0] + 2]);
      const sizes = answer.items.map(({ decision }: Any) => decision.receipt.tree_size);
      expect(new Set(sizes), "one commit").toEqual(new Set([indices[2] + 1]));
    }
  });

  const plans = "/v1/bulk/protection-plans";
  const question = (more: object = {}) => ({ ...sampleOf("/v1/sdk/protection-plan"), ...more });
  const denied = question({ labels: ["do-not-export"] });
  const ask = (body: unknown, headers: Record<string, string> = {}) =>
    rest(gateway.url + plans, { token, body, headers });
  /** The size that the log has. */
  const nextIndex = async () => {
    const { body } = await rest(`${gateway.url}/v1/sdk/protection-plan`, { token, body: question() });
    return body.decision.receipt.leaf_index + 1;
  };

  test("an item that is no protobuf, or not UTF-8, is refused alone", async () => {
    const good = toBinary(PlanProtectionRequestSchema, requestFromRest(planMethod, question()) as Any);
    const bad = [new Uint8Array([0xff]), new Uint8Array([0x3a, 2, 0xc3, 0x28]), new Uint8Array([0x12, 0x7f])];
    const body = new BinaryWriter();
    for (const item of [good, ...bad, good]) body.tag(1, WireType.LengthDelimited).bytes(item);
    const response = await fetch(`${gateway.url}/platform.bulk.v1.BulkDecisionService/PlanProtections`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/proto" },
      body: body.finish(),
    });
    expect(response.status).toBe(200);
    const { items } = fromBinary(PlanProtectionsResponseSchema, new Uint8Array(await response.arrayBuffer()));
    expect(items.map(({ outcome }) => outcome)).toEqual([1, 2, 2, 2, 1]);
    for (const { error } of items.slice(1, 4)) expect(error?.reason).toBe("invalid_request");
  });

  test("items after the first denial or allow are neither answered nor recorded", async () => {
    const items = [question(), denied, question(), { operation: "?" }, question()];
    const before = await nextIndex();
    expect(outcomes(await ask({ items }))).toEqual(["answered", "answered", "answered", "refused", "answered"]);
    const no = "not_evaluated";
    expect(outcomes(await ask({ items, stop_on_first_deny: true }))).toEqual(["answered", "answered", no, no, no]);
    expect(outcomes(await ask({ items, stop_on_first_allow: true }))).toEqual(["answered", no, no, no, no]);
    const refusedFirst = { items: items.slice(3), stop_on_first_deny: true };
    expect(outcomes(await ask(refusedFirst))).toEqual(["refused", no]);
    expect(await nextIndex()).toBe(before + 4 + 2 + 1 + 1);
  });

  test.each([
    ["no member", {}, "items"],
    ["no item", { items: [] }, "items"],
    ["too many", { items: Array.from({ length: 1001 }, () => ({})) }, "items"],
    ["a text", { items: "[]" }, "items"],
    ["an unknown member", { items: [{}], item: [] }, "item"],
    ["not a boolean", { items: [{}], stop_on_first_deny: "true" }, "stop_on_first_deny"],
  ])("%s is refused as a whole, with its path", async (_what, body, field) => {
    const { status, body: refusal } = await ask(body);
    expect(status).toBe(400);
    expect(refusal.error.violations.map((violation: Any) => violation.field)).toContain(field);
  });

  test.each([
    ["items twice", '{"items":[{}],"items":[{}]}'],
    ["an escaped name", '{"\\u0069tems":[{}]}'],
  ])("%s is refused as a whole", async (_what, body) => {
    expect((await ask(body)).status).toBe(400);
  });
});

describe("scopes and quotas", () => {
  let folder: string;
  let gateway: Gateway;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "svc-bulk-"));
    const quotas = join(folder, "quotas.json");
    const requests = { limit: 10, period_seconds: 3600 };
    writeFileSync(quotas, JSON.stringify({ tenants: { limited: { requests, records: requests } } }));
    const clients = [
      ["limited", ["platform-api.access", "policy.read"]],
      ["unscoped", ["platform-api.access", "keys.use"]],
    ] as const;
    const env = { SVC_BULK: "on", SVC_QUOTAS: quotas };
    const issuerClients = clients.map(([tenantId, scopes]) => ({
      ...{ clientId: tenantId, clientSecret: "a secret of the test", tenantId, principalId: "payroll", scopes },
    }));
    gateway = await startGateway({ issuer: { clients: issuerClients }, env });
  });
  afterAll(async () => {
    await gateway.stop();
    rmSync(folder, { recursive: true });
  });
  const tokenOf = (clientId: string) => gateway.token({ clientId });
  const item = sampleOf("/v1/sdk/policy-resolve");

  test("needs the scopes of the single route", async () => {
    const token = await tokenOf("unscoped");
    const refused = await rest(`${gateway.url}/v1/bulk/policy-resolutions`, { token, body: { items: [item] } });
    expect(refused.status).toBe(403);
    expect(refused.body.error.missing_scopes).toEqual(["policy.read"]);
    const body = { items: [sampleOf("/v1/sdk/key-access-plan")] };
    expect((await rest(`${gateway.url}/v1/bulk/key-access-plans`, { token, body })).status).toBe(200);
  });

  test("quotas count items, and answered items as records", async () => {
    const token = await tokenOf("limited");
    const ask = (count: number, more: unknown[] = []) =>
      rest(`${gateway.url}/v1/bulk/policy-resolutions`, {
        token,
        body: { items: [...Array.from({ length: count }, () => item), ...more] },
      });
    const remaining = ({ headers }: RestAnswer) => headers.get("ratelimit");
    const over = await ask(11);
    expect([over.status, over.body.error.reason]).toEqual([429, "rate_limited"]);
    const first = await ask(3, [{}]);
    expect(outcomes(first)).toEqual(["answered", "answered", "answered", "refused"]);
    // The call that was refused is a request.
    expect(remaining(first)).toContain('"requests";r=5');
    expect((await ask(6)).status).toBe(429);
    const last = await ask(3);
    expect(last.status).toBe(200);
    expect(remaining(last)).toContain('"records";r=4');
  });
});

describe("the bulk setting", () => {
  const paths = ["/v1/bulk/protection-plans", "/openapi-bulk.json", "/openapi-bulk.yaml"];
  const rpc = "/platform.bulk.v1.BulkDecisionService/PlanProtections";
  const services = async (gateway: Gateway) => {
    const client = createClient(ServerReflection, createGrpcTransport({ baseUrl: gateway.url }));
    const query = { messageRequest: { case: "listServices", value: "" } } as const;
    const answers = client.serverReflectionInfo(
      (async function* () {
        yield query;
      })(),
    );
    for await (const { messageResponse } of answers)
      if (messageResponse.case === "listServicesResponse") return messageResponse.value.service.map(({ name }) => name);
    return [];
  };

  test("off, the default, serves no bulk route", async () => {
    const gateway = await startGateway();
    try {
      const token = await gateway.token();
      for (const path of paths) {
        const body = path.startsWith("/v1") ? { items: [{}] } : undefined;
        const answer = await rest(gateway.url + path, { token, ...(body !== undefined && { body }) });
        expect([answer.status, answer.body.error.reason]).toEqual([404, "no_route"]);
      }
      const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
      const connect = await fetch(gateway.url + rpc, { method: "POST", headers, body: '{"items":[{}]}' });
      expect([connect.status, await connect.json()]).toMatchObject([404, { code: "unimplemented" }]);
      expect((await services(gateway)).filter((name) => name.includes("bulk"))).toEqual([]);
      for (const path of ["/v1/sdk/capabilities", "/openapi.json"])
        expect(JSON.stringify((await rest(gateway.url + path, { token })).body)).not.toContain("bulk");
    } finally {
      await gateway.stop();
    }
  });
});
