import { create, type Message } from "@bufbuild/protobuf";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import { type Outcome, wireClients } from "../harness/clients.ts";
import { draws } from "../harness/draws.ts";
import { gatewayForFile } from "../harness/gateway.ts";
import { requestOf } from "../harness/generate.ts";
import {
  everyApi,
  furtherMethods,
  methodOn,
  requestFromRest,
  type WireMethod,
  wireMethods,
} from "../harness/methods.ts";

const gateway = await gatewayForFile({ env: everyApi });
const token = await gateway.token();
const clients = wireClients(gateway.url);

async function askAll(method: WireMethod, request: Message, headers: Record<string, string> = {}) {
  const all = { authorization: `Bearer ${token}`, "x-request-id": "same-for-all", ...headers };
  return Promise.all(
    clients.map(async (client) => ({ client: client.name, outcome: await client.call(method, request, all) })),
  );
}

/** What must be the same: all but the id and receipt that each record has of its own, and how a refusal is worded. */
function essence(outcome: Outcome): unknown {
  if ("refusal" in outcome) {
    const { message: _, fields: __, ...refusal } = outcome.refusal;
    return refusal;
  }
  const own = { decision_id: "its own", receipt: "its own" };
  return Object.fromEntries(
    Object.entries(outcome.answer).map(([name, member]) => {
      if (typeof member !== "object" || member === null || !("receipt" in member)) return [name, member];
      return [name, { ...member, ...own }];
    }),
  );
}

async function expectSame(method: WireMethod, request: Message, headers?: Record<string, string>): Promise<Outcome> {
  const [rest, first, ...others] = await askAll(method, request, headers);
  if (rest === undefined || first === undefined) throw new Error("no clients");
  for (const other of [first, ...others]) {
    expect(essence(other.outcome), other.client).toEqual(essence(rest.outcome));
    expect(fieldsOf(other.outcome), other.client).toEqual(fieldsOf(first.outcome));
  }
  // What the JSON routes cannot even spell, an undeclared enumeration value or 2^53, they name without the rest.
  expect(fieldsOf(first.outcome)).toEqual(expect.arrayContaining(fieldsOf(rest.outcome)));
  expect(fieldsOf(rest.outcome).length === 0).toBe(fieldsOf(first.outcome).length === 0);
  return rest.outcome;
}

const everyMethod = [...wireMethods, ...furtherMethods];

/** Paths of the broken members. */
function fieldsOf(outcome: Outcome): string[] {
  return "refusal" in outcome ? [...outcome.refusal.fields] : [];
}

describe("REST, Connect in JSON and binary, gRPC-Web, gRPC, and another implementation's gRPC answer the same", () => {
  test.each(sampleCalls().map(({ route, body }) => [route, body] as const))("%s", async (route, body) => {
    const method = methodOn(route);
    const outcome = await expectSame(method, requestFromRest(method, body));
    expect(outcome).toMatchObject({ answer: { service: "svc-platform-api" } });
  });

  test.each(sampleCalls().flatMap(({ route, body }) => (body ? [[route, body] as const] : [])))(
    "any request of %s",
    async (route, body) => {
      const method = methodOn(route);
      const outcomes = new Set<string>();
      await fc.assert(
        fc.asyncProperty(requestOf(method.desc.input), async (request) => {
          outcomes.add(Object.keys(await expectSame(method, request)).join());
        }),
        // One request that is answered and one that is refused: a random search may miss either.
        { numRuns: draws(15, 60), examples: [[requestFromRest(method, body)], [create(method.desc.input)]] },
      );
      expect(outcomes).toEqual(new Set(["answer", "refusal"]));
    },
  );

  test.each([
    ["no credentials", { authorization: "" }, "missing_token"],
    ["bad credentials", { authorization: "Bearer x" }, "invalid_token"],
    ["another tenant", { "x-svc-tenant-id": "tenant-b" }, "tenant_mismatch"],
  ])("%s", async (_name, headers, reason) => {
    for (const method of everyMethod) {
      const outcome = await expectSame(method, create(method.desc.input), headers);
      expect(outcome).toMatchObject({ refusal: { reason } });
    }
  });

  test("a missing scope", async () => {
    const authorization = `Bearer ${await gateway.token({ scope: "policy.read" })}`;
    for (const method of everyMethod) {
      const outcome = await expectSame(method, create(method.desc.input), { authorization });
      expect(outcome).toMatchObject({ refusal: { reason: "missing_scope" } });
    }
  });
});
