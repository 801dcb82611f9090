/** Bulk evidence and registrations over the wire: each item recorded once, whatever is sent again, and refused alone. */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import { type WireClient, wireClients } from "../harness/clients.ts";
import { type Gateway, type RestAnswer, rest, restUntilServed, startGateway } from "../harness/gateway.ts";
import { methodOn, requestFromRest } from "../harness/methods.ts";
import { type TestStore, testStores } from "../harness/stores.ts";

// biome-ignore lint/suspicious/noExplicitAny: members of several shapes, whose absence fails the test.
type Any = any;

const kinds = [
  ["/v1/bulk/evidence", "/v1/sdk/evidence", "event", "ingestion"],
  ["/v1/bulk/artifact-registrations", "/v1/sdk/artifact-register", "registration", "registration"],
] as const;

const sampleOf = (route: string): Any => structuredClone(sampleCalls().find((call) => call.route === route)?.body);
const outcomes = ({ body }: RestAnswer) => body.items.map(({ outcome }: Any) => outcome);

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

  describe.each(kinds)("%s", (bulkRoute, route, member, holder) => {
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
});
