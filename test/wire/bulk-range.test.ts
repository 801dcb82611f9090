/** One receipt for a whole bulk call: on every protocol and store it verifies with the trusted key and the client alone. */
import { randomUUID } from "node:crypto";
import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { verifyRange } from "../../clients/typescript/src/receipts.ts";
import { sampleCalls } from "../../dev/requests.ts";
import { ItemOutcome, RangeLeafSchema, RangeReceiptSchema } from "../../gen/platform/bulk/v1/common_pb.ts";
import { BulkStreamService } from "../../gen/platform/bulk/v1/streams_pb.ts";
import { type WireClient, wireClients } from "../harness/clients.ts";
import { type Gateway, rest, restUntilServed, startGateway } from "../harness/gateway.ts";
import { logKeyOf } from "../harness/ledger.ts";
import { methodOn, requestFromRest, wireMethods } from "../harness/methods.ts";
import { type TestStore, testStores } from "../harness/stores.ts";

// biome-ignore lint/suspicious/noExplicitAny: members of several shapes, whose absence fails the test.
type Any = any;

const range = { "x-svc-receipt": "range" };
const kinds = [
  ["/v1/bulk/protection-plans", "/v1/sdk/protection-plan", "decision"],
  ["/v1/bulk/policy-resolutions", "/v1/sdk/policy-resolve", "decision"],
  ["/v1/bulk/key-access-plans", "/v1/sdk/key-access-plan", "decision"],
  ["/v1/bulk/evidence", "/v1/sdk/evidence", "ingestion"],
  ["/v1/bulk/artifact-registrations", "/v1/sdk/artifact-register", "registration"],
] as const;
const wrapper: Record<string, string> = { ingestion: "event", registration: "registration" };

const sampleOf = (route: string): Any => structuredClone(sampleCalls().find((call) => call.route === route)?.body);

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

  test.each(kinds)(
    "%s: every protocol carries a proof that verifies and is shorter than brief receipts",
    async (path, single, holder) => {
      const item = () =>
        holder === "decision"
          ? sampleOf(single)
          : { idempotency_key: randomUUID(), [wrapper[holder] ?? ""]: sampleOf(single) };
      const method = methodOn(path);
      const headers = { authorization: `Bearer ${token}` };
      for (const client of clients) {
        // What is refused has no place.
        const sent = {
          items: [item(), item(), { ...item(), ...(holder !== "decision" && { idempotency_key: "" }) }, item()],
        };
        const ask = async (more: object) =>
          ((await client.call(method, requestFromRest(method, sent), { ...headers, ...more })) as { answer: Any })
            .answer;
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
      const { status, body: answer } = await rest(gateway.url + path, { token, headers: range, ...(body && { body }) });
      expect([path, status, answer.error?.message]).toEqual([path, 400, message]);
    }
    const method = methodOn("/v1/sdk/protection-plan");
    for (const client of clients) {
      const headers = { authorization: `Bearer ${token}`, ...range };
      const outcome = await client.call(method, requestFromRest(method, sampleOf("/v1/sdk/protection-plan")), headers);
      expect(outcome, client.name).toMatchObject({ refusal: { reason: "invalid_request", message } });
    }
    const streams = createClient(BulkStreamService, createGrpcTransport({ baseUrl: gateway.url }));
    const headers = { authorization: `Bearer ${token}`, ...range };
    const answers = streams.streamEvents((async function* () {})(), { headers })[Symbol.asyncIterator]();
    await expect(answers.next()).rejects.toThrow(message);
    const bulk = await record([event()], { "x-svc-receipt": "Range" });
    expect(bulk.error.message).toBe("header x-svc-receipt must be full, brief, cose, range or none");
  });
});
