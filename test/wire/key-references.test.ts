/** A reference that is restricted to one tenant is given to no other, under whatever spelling and on whatever protocol. */
import { describe, expect, test } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import { answerDifferences } from "../../src/domain/lineage/answer-check.ts";
import { type WireClient, wireClients } from "../harness/clients.ts";
import { gatewayForFile, rest } from "../harness/gateway.ts";
import { methodOn, requestFromRest } from "../harness/methods.ts";

const managed = { mode: "wrapped_key_reference", origin: "kms" };
const tdfKey = { url: "https://kas.example.com", kid: "r1", algorithm: "rsa:2048" };
const attributes = ["https://example.com/attr/department/value/finance"];
const patterns = {
  "kms://*": managed,
  "kms://tenant-b/*": { ...managed, tenants: ["tenant-b"] },
  "kas-r1": { mode: "local_provided", origin: "kas", tdf_key: tdfKey },
  "kas-of-finance": { mode: "local_provided", origin: "kas", tdf_key: { ...tdfKey, attribute_fqns: attributes } },
};
/** Of the many that `unit/policy/key-references.test.ts` has, one of a path and one of letters. */
const aliases = ["kms://x/../tenant-b/k", "KMS://tenant-b/k"];

const gateway = await gatewayForFile({ env: { SVC_KEY_REFERENCES: JSON.stringify(patterns) } });
const clients = wireClients(gateway.url);
const authorization = `Bearer ${await gateway.token()}`;

describe.each(["/v1/sdk/key-access-plan", "/v1/sdk/artifact-register"])("%s", (route) => {
  const ask = (client: WireClient, reference: string) => {
    const method = methodOn(route);
    const sample = sampleCalls().find((call) => call.route === route)?.body;
    return client.call(method, requestFromRest(method, { ...sample, key_reference: reference }), { authorization });
  };

  test.each(aliases)("%s is refused", async (alias) => {
    for (const client of clients)
      expect([client.name, await ask(client, alias)]).toMatchObject([
        client.name,
        { refusal: { code: "invalid_argument", reason: "invalid_request", fields: ["key_reference"] } },
      ]);
  });

  test("a canonical reference is read", async () => {
    for (const client of clients)
      expect([client.name, await ask(client, "kms://tenant-a/k")]).toHaveProperty("1.answer");
  });
});

test.each([
  ["kas-r1", []],
  ["kas-of-finance", attributes],
])("a plan for %s names the TDF key, as its record does", async (key_reference, attribute_fqns) => {
  const route = "/v1/sdk/key-access-plan";
  const sample = sampleCalls().find((call) => call.route === route)?.body;
  const token = await gateway.token();
  const { body } = await rest(`${gateway.url}${route}`, { token, body: { ...sample, key_reference } });
  expect(body.execution.key_transport).toEqual({
    mode: "local_provided",
    key_material_origin: "kas",
    stable_key_reference_preferred: false,
    raw_key_delivery_forbidden: true,
    tdf_key: { ...tdfKey, attribute_fqns },
  });
  const record = JSON.parse(Buffer.from(body.decision.receipt.record, "base64").toString());
  expect(answerDifferences(body, record)).toEqual([]);
  body.execution.key_transport.tdf_key.url = "https://elsewhere.example.com";
  expect(answerDifferences(body, record)).toEqual(["execution.key_transport"]);
});
