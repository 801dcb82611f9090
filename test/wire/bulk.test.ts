/** Bulk calls over the wire: on every protocol and store, each item answered as its single route answers it, and refused alone. */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { fromBinary, fromJson, type JsonValue, toBinary } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { Code, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { describe, expect, test } from "vitest";
import { verifyRange } from "../../clients/typescript/src/receipts.ts";
import { sampleCalls } from "../../dev/requests.ts";
import { ItemOutcome, RangeLeafSchema, RangeReceiptSchema } from "../../gen/platform/bulk/v1/common_pb.ts";
import { PlanProtectionsResponseSchema } from "../../gen/platform/bulk/v1/decisions_pb.ts";
import { BulkStreamService } from "../../gen/platform/bulk/v1/streams_pb.ts";
import { PlanProtectionRequestSchema } from "../../gen/platform/sdk/v1/protection_pb.ts";
import { answerOf, wireClients } from "../harness/clients.ts";
import { folderForFile, replaceFile } from "../harness/folder.ts";
import { gatewayForFile, type RestAnswer, rest, restUntilServed } from "../harness/gateway.ts";
import { logKeyOf } from "../harness/ledger.ts";
import { forFile } from "../harness/lifetimes.ts";
import { methodOn, requestFromRest, wireMethods } from "../harness/methods.ts";
import { testStores } from "../harness/stores.ts";

const decisionKinds = [
  ["/v1/bulk/protection-plans", "/v1/sdk/protection-plan"],
  ["/v1/bulk/policy-resolutions", "/v1/sdk/policy-resolve"],
  ["/v1/bulk/key-access-plans", "/v1/sdk/key-access-plan"],
] as const;

const recordKinds = [
  ["/v1/bulk/evidence", "/v1/sdk/evidence", "event", "ingestion"],
  ["/v1/bulk/artifact-registrations", "/v1/sdk/artifact-register", "registration", "registration"],
] as const;
/** Route, single route, and the member of an item's answer that has its receipt. */
const allKinds = [
  ...decisionKinds.map(([bulk, single]) => [bulk, single, "decision"] as const),
  ...recordKinds.map(([bulk, single, , holder]) => [bulk, single, holder] as const),
];

type Any = RestAnswer["body"];

const planMethod = methodOn("/v1/sdk/protection-plan");
const sampleOf = (route: string): Any => structuredClone(sampleCalls().find((call) => call.route === route)?.body);

const outcomes = ({ body }: RestAnswer) => body.items.map(({ outcome }: Any) => outcome);

/** What two answers to the same question have in common. */
function withoutIds(item: Any): Any {
  const { outcome: _, request_summary: __, service, status, caller, platform_domains, ...answer } = item;
  const { decision_id, receipt, ...decision } = answer.decision;
  return { ...answer, decision };
}

describe.each(testStores)("%s", async (_name, startStore) => {
  const store = await forFile(startStore());
  const gateway = await gatewayForFile({ dataDir: store.folder, env: { ...store.settings, SVC_BULK: "on" } });
  const clients = wireClients(gateway.url);
  const token = await gateway.token();

  describe("decisions", () => {
    test.each(decisionKinds)("%s answers as %s, in order, on every protocol", async (bulkRoute, route) => {
      const single = await rest(gateway.url + route, { token, body: sampleOf(route) });
      expect(single.status).toBe(200);
      const items = ["first", "second", "third"].map((id) => ({
        ...sampleOf(route),
        resource: { ...sampleOf(route).resource, id },
      }));
      const method = methodOn(bulkRoute);
      for (const client of clients) {
        const request = requestFromRest(method, { items });
        const answer = answerOf(await client.call(method, request, { authorization: `Bearer ${token}` }));
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

  describe.each(recordKinds)("%s", (bulkRoute, route, member, holder) => {
    const ask = (items: unknown[]) => restUntilServed(gateway.url + bulkRoute, { token, body: { items } });
    const itemOf = (id: string, idempotency_key: string = randomUUID(), more: object = {}) => ({
      idempotency_key,
      [member]: { ...sampleOf(route), resource: { ...sampleOf(route).resource, id }, ...more },
    });
    const indices = ({ body }: RestAnswer) => body.items.map((item: Any) => item[holder]?.receipt.leaf_index);

    test("answers as the single route, in order, on every protocol, and again for a retry", async () => {
      const method = methodOn(bulkRoute);
      for (const client of clients) {
        const request = requestFromRest(method, { items: ["first", "second", "third"].map((id) => itemOf(id)) });
        const headers = { authorization: `Bearer ${token}` };
        const { answer } = (await client.call(method, request, headers)) as { answer: Any };
        const single = await rest(gateway.url + route, { token, body: (itemOf("first") as Any)[member] });
        for (const item of answer.items) {
          const { receipt, ...members } = item[holder];
          const { receipt: _, ...expected } = single.body[holder];
          expect([item.outcome, members, item.warnings]).toEqual(["answered", expected, single.body.warnings]);
          expect(receipt).not.toHaveProperty("record");
        }
        expect(answer.items.map((item: Any) => item.idempotency_key)).toHaveLength(3);
        const [first] = indices({ body: answer } as RestAnswer);
        expect(indices({ body: answer } as RestAnswer)).toEqual([first, first + 1, first + 2]);
        const { answer: again } = (await client.call(method, request, headers)) as { answer: Any };
        expect(again.items, client.name).toEqual(
          answer.items.map((item: Any, i: number) => ({
            ...item,
            [holder]: { ...item[holder], receipt: again.items[i][holder].receipt },
          })),
        );
        expect(indices({ body: again } as RestAnswer)).toEqual([first, first + 1, first + 2]);
      }
    });

    test("a key that occurs twice in a call is one record; with another payload it is refused alone", async () => {
      const [once, other, fresh] = [randomUUID(), randomUUID(), randomUUID()];
      const first = await ask([itemOf("a", once), itemOf("a", once), itemOf("b", once), itemOf("c", other)]);
      expect(outcomes(first)).toEqual(["answered", "answered", "refused", "answered"]);
      expect(first.body.items[2].error.reason).toBe("idempotency_conflict");
      const [a, twin, , c] = indices(first);
      expect([twin, c]).toEqual([a, a + 1]);
      // Some of it is new.
      const again = await ask([itemOf("c", other), itemOf("d", fresh), itemOf("a", once), itemOf("e", other)]);
      expect(outcomes(again)).toEqual(["answered", "answered", "answered", "refused"]);
      expect(indices(again)).toEqual([c, c + 1, a, undefined]);
    });

    test("an idempotency key is shared with the single route", async () => {
      const key = randomUUID();
      const bulk = await ask([itemOf("a", key)]);
      const headers = { "idempotency-key": key };
      const single = await rest(gateway.url + route, { token, body: (itemOf("a") as Any)[member], headers });
      expect(single.body[holder].receipt.leaf_index).toBe(indices(bulk)[0]);
    });

    test("a fault in one item is reported for it, by its path", async () => {
      const bad = [
        [itemOf("a", ""), "idempotency_key"],
        [itemOf("a", "two words"), "idempotency_key"],
        [itemOf("a", "x".repeat(129)), "idempotency_key"],
        [{ ...itemOf("a"), plaintext: "secret" }, "plaintext"],
      ] as const;
      const answer = await ask([itemOf("first"), ...bad.map(([item]) => item), itemOf("last")]);
      expect(outcomes(answer)).toEqual(["answered", ...bad.map(() => "refused"), "answered"]);
      for (const [i, [, field]] of bad.entries()) {
        const { error } = answer.body.items[i + 1];
        expect([error.reason, error.violations.map((violation: Any) => violation.field)]).toEqual([
          "invalid_request",
          expect.arrayContaining([field]),
        ]);
      }
      const [first, last] = [indices(answer)[0], indices(answer).at(-1)];
      expect(last).toBe(first + 1);
    });
  });

  describe("one receipt for a whole call", () => {
    const range = { "x-svc-receipt": "range" };
    const memberOf: Record<string, string> = Object.fromEntries(
      recordKinds.map(([, , member, holder]) => [holder, member]),
    );

    /** What the client's verifier says of an answer. */
    async function verify(answer: Any) {
      const receipt = answer.receipt && fromJson(RangeReceiptSchema, answer.receipt as JsonValue);
      const items = answer.items.map(({ outcome, leaf, decision, ingestion, registration }: Any) => ({
        outcome: outcome === "answered" ? ItemOutcome.ANSWERED : ItemOutcome.UNSPECIFIED,
        leaf: leaf && fromJson(RangeLeafSchema, leaf),
        decision: decision && { decisionId: decision.decision_id },
        ingestion,
        registration,
      }));
      return {
        places: await verifyRange({ receipt, items }, logKeyOf(store.settings.SVC_LEDGER_KEY, receipt?.logOrigin)),
        items,
      };
    }

    const event = (key: string = randomUUID(), id = "a") => ({
      idempotency_key: key,
      event: { ...sampleOf("/v1/sdk/evidence"), resource: { kind: "record", id } },
    });
    const record = async (items: unknown[], headers: Record<string, string> = range) =>
      (await restUntilServed(`${gateway.url}/v1/bulk/evidence`, { token, body: { items }, headers })).body;

    test.each(allKinds)(
      "%s: every protocol carries a proof that verifies and is shorter than brief receipts",
      async (path, single, holder) => {
        const item = () =>
          holder === "decision"
            ? sampleOf(single)
            : { idempotency_key: randomUUID(), [memberOf[holder] ?? ""]: sampleOf(single) };
        const method = methodOn(path);
        const headers = { authorization: `Bearer ${token}` };
        for (const client of clients) {
          // What is refused has no place.
          const sent = {
            items: [item(), item(), { ...item(), ...(holder !== "decision" && { idempotency_key: "" }) }, item()],
          };
          const ask = async (more: object) =>
            answerOf(await client.call(method, requestFromRest(method, sent), { ...headers, ...more }));
          const answer = await ask(range);
          for (const each of answer.items) expect(each[holder] ?? {}).not.toHaveProperty("receipt");
          const { places } = await verify(answer);
          expect(places.map((place) => place !== undefined)).toEqual(
            answer.items.map(({ outcome }: Any) => outcome === "answered"),
          );
          const brief = await ask({});
          expect(brief, client.name).not.toHaveProperty("receipt");
          expect(brief.items[0]).not.toHaveProperty("leaf");
          for (const each of (await ask({ "x-svc-receipt": "none" })).items)
            expect(each[holder] ?? {}).not.toHaveProperty("receipt");
          expect(JSON.stringify(answer).length).toBeLessThan(JSON.stringify(brief).length);
        }
      },
    );

    test("the single routes, and streams, refuse this value", async () => {
      const message = "header x-svc-receipt must be full, brief, cose or none";
      for (const { restPath: path, verb } of wireMethods) {
        const body = verb === "POST" ? sampleOf(path) : undefined;
        const { status, body: answer } = await rest(gateway.url + path, {
          token,
          headers: range,
          ...(body && { body }),
        });
        expect([path, status, answer.error?.message]).toEqual([path, 400, message]);
      }
      const streams = createClient(BulkStreamService, createGrpcTransport({ baseUrl: gateway.url }));
      const headers = { authorization: `Bearer ${token}`, ...range };
      const answers = streams.streamEvents((async function* () {})(), { headers })[Symbol.asyncIterator]();
      await expect(answers.next()).rejects.toThrow(message);
      const bulk = await record([event()], { "x-svc-receipt": "Range" });
      expect(bulk.error.message).toBe("header x-svc-receipt must be full, brief, cose, range or none");
    });
  });
});

const hourly = (limit: number) => ({ limit, period_seconds: 3600 });
const tenants = {
  limited: { requests: hourly(10), records: hourly(10) },
  asking: { requests: hourly(100) },
  bulky: { artifact_bytes: hourly(65_536) },
  streaming: { artifact_bytes: hourly(65_536) },
  single: { records: hourly(1) },
};
const quotas = join(folderForFile("bulk"), "quotas.json");
replaceFile(quotas, JSON.stringify({ tenants }));
const limitedClients = Object.entries({
  ...{ limited: "policy.read", asking: "policy.read", bulky: "artifacts.write", streaming: "artifacts.write" },
  single: "artifacts.write",
  unscoped: "keys.use",
}).map(([tenantId, scope]) => ({
  ...{ clientId: tenantId, clientSecret: "a secret of the test", tenantId, principalId: "payroll" },
  scopes: ["platform-api.access", scope],
}));
const limited = await gatewayForFile({
  issuer: { clients: limitedClients },
  env: { SVC_BULK: "on", SVC_AUTHZEN: "on", SVC_QUOTAS: quotas },
});

describe("scopes and quotas", () => {
  const tokenOf = (clientId: string) => limited.token({ clientId });
  const item = sampleOf("/v1/sdk/policy-resolve");

  test("needs the scopes of the single route", async () => {
    const token = await tokenOf("unscoped");
    const refused = await rest(`${limited.url}/v1/bulk/policy-resolutions`, { token, body: { items: [item] } });
    expect(refused.status).toBe(403);
    expect(refused.body.error.missing_scopes).toEqual(["policy.read"]);
    const body = { items: [sampleOf("/v1/sdk/key-access-plan")] };
    expect((await rest(`${limited.url}/v1/bulk/key-access-plans`, { token, body })).status).toBe(200);
  });

  test("quotas count items, and answered items as records", async () => {
    const token = await tokenOf("limited");
    const ask = (count: number, more: unknown[] = []) =>
      rest(`${limited.url}/v1/bulk/policy-resolutions`, {
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

  test("quotas count the questions of an enforcement point, and the answer says what they leave", async () => {
    const evaluations = Array.from({ length: 10 }, () => ({ resource: { type: "record", id: "r" } }));
    const body = { subject: { type: "principal", id: "payroll" }, action: { name: "access" }, evaluations };
    const answer = await rest(`${limited.url}/access/v1/evaluations`, { token: await tokenOf("asking"), body });
    expect([answer.status, answer.headers.get("ratelimit")]).toEqual([200, expect.stringContaining('"requests";r=90')]);
  });

  const artifact = { artifact_digest: "own:1", artifact_object_b64: "A".repeat(40_000) };
  const registration = { ...sampleOf("/v1/sdk/artifact-register"), ...artifact };

  test("quotas count the bytes of artifacts in bulk calls as on the single route", async () => {
    const token = await tokenOf("bulky");
    const register = () => {
      const body = { items: [{ idempotency_key: randomUUID(), registration }] };
      return rest(`${limited.url}/v1/bulk/artifact-registrations`, { token, body });
    };
    expect(outcomes(await register())).toEqual(["answered"]);
    const { status, body } = await register();
    expect([status, body.error.reason]).toEqual([429, "rate_limited"]);
  });

  test.each([
    ["the bytes of artifacts", "streaming"],
    ["its items as records, and not the stream,", "single"],
  ])("quotas count %s on a stream", async (_, clientId) => {
    const headers = { authorization: `Bearer ${await tokenOf(clientId)}` };
    const item = { registration: requestFromRest(methodOn("/v1/sdk/artifact-register"), registration) as Any };
    const acknowledged = Promise.withResolvers<void>();
    async function* requests() {
      yield { sequence: 1n, item: { ...item, idempotencyKey: randomUUID() } };
      await acknowledged.promise;
      yield { sequence: 2n, item: { ...item, idempotencyKey: randomUUID() } };
    }
    const client = createClient(BulkStreamService, createGrpcTransport({ baseUrl: limited.url }));
    const answers = client.streamRegistrations(requests(), { headers })[Symbol.asyncIterator]();
    const first: Any = await answers.next();
    expect(first.value.items[0].result.outcome).toBe(ItemOutcome.ANSWERED);
    acknowledged.resolve();
    await expect(answers.next()).rejects.toMatchObject({ code: Code.ResourceExhausted });
  });
});
