/** Who may read the logs on the operator listener, and what search answers there. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fromJson } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { continues, type VerifiedReceipt, verifyReceipt } from "../../clients/typescript/src/receipts.ts";
import { defaultClient } from "../../dev/issuer.ts";
import { sampleCalls } from "../../dev/requests.ts";
import { sameLog } from "../../examples/ledger/same-log.ts";
import { type Receipt, ReceiptSchema } from "../../gen/platform/sdk/v1/common_pb.ts";
import { hashOpsToken } from "../../src/credentials/ops-credentials.ts";
import { writeOperators } from "../harness/console.ts";
import { folderForFile } from "../harness/folder.ts";
import { type Gateway, gatewayForFile, rest } from "../harness/gateway.ts";
import { h1Exchange } from "../harness/h1.ts";
import { forTest } from "../harness/lifetimes.ts";
import { askOf, sessionByRest, startSessionDeployment, testClient } from "../harness/sessions.ts";
import { tlsFetch } from "../harness/tls-callers.ts";

const fixtures = join(import.meta.dirname, "../unit/config/fixtures");
const certFile = join(fixtures, "server.crt.pem");
const operatorToken = Buffer.alloc(32, 7).toString("base64url");
const otherTenant = "tenant-b";
const scopes = ["platform-api.access", "evidence.write", "ledger.search"];
const client = (clientId: string, tenantId: string) => {
  return { ...defaultClient(), clientId, tenantId, principalId: clientId, scopes };
};
const issuer = { clients: [client("one", "tenant-a"), client("two", otherTenant)] };

const directory = folderForFile("ops-access");
const credentials = await writeOperators(directory, { olga: operatorToken });
const decisionless = sampleCalls().find(({ route }) => route.endsWith("/evidence"))?.body as Record<string, unknown>;
const env = { SVC_OPS_CREDENTIALS: credentials };
const local = await gatewayForFile({ issuer, env });
const tls = { SVC_OPS_TLS_CERT: certFile, SVC_OPS_TLS_KEY: join(fixtures, "server.key.pem") };
const remote = await gatewayForFile({ issuer, env: { ...env, ...tls, SVC_OPS_LISTEN: "0.0.0.0:0" } });
for (const gateway of [local, remote])
  for (const clientId of ["one", "two"]) await record(gateway, clientId, { artifact_digest: "sha256:abc" });

async function record(gateway: Gateway, clientId: string, changes: Record<string, unknown>): Promise<string> {
  const token = await gateway.token({ clientId });
  const body = { ...decisionless, ...changes };
  const { body: answer } = await rest(`${gateway.url}/v1/sdk/evidence`, { token, body });
  return answer.ingestion.receipt.record_id;
}

async function get(gateway: Gateway, path: string, token?: string, more: Record<string, string> = {}) {
  const ca = await readFile(certFile);
  const url = new URL(path, gateway.opsUrl.replace("0.0.0.0", "127.0.0.1"));
  const headers = { ...more, ...(token !== undefined && { authorization: `Bearer ${token}` }) };
  const options = { ca, servername: "localhost", agent: false, headers };
  return answerIn(url.protocol === "http:" ? await fetch(url, { headers }) : await tlsFetch(url, options));
}

async function answerIn(response: Response) {
  const text = await response.text();
  // A tile is bytes, which may begin as an object does.
  const isJson = response.headers.get("content-type")?.startsWith("application/json");
  const json = isJson ? JSON.parse(text) : undefined;
  return { status: response.status, headers: Object.fromEntries(response.headers), json };
}

/** Names of the logs of both tenants, as an operator sees them. */
async function logsOf(gateway: Gateway) {
  const { json } = await get(gateway, "/ledger", operatorToken);
  const nameOf = (tenant: string): string =>
    json.logs.find(({ tenant_id }: { tenant_id: string }) => tenant_id === tenant).name;
  return { own: nameOf("tenant-a"), other: nameOf(otherTenant), count: json.logs.length as number };
}

const everyPath = (log: string) =>
  ["checkpoint", "tile/0/000.p/1", "tile/entries/000.p/1", "consistency?from=1&to=2", "search"].map(
    (path) => `/ledger/${log}/${path}`,
  );

describe.each([
  ["on loopback", () => local],
  ["off loopback, over TLS", () => remote],
])("%s", (_, gatewayOf) => {
  test("a tenant header beside a tenant's token names that tenant, or the request is refused", async () => {
    const gateway = gatewayOf();
    const token = await gateway.token({ clientId: "one" });
    const outcome = async (tenant: string) =>
      (await get(gateway, "/ledger", token, { "x-svc-tenant-id": tenant })).json.error?.reason ?? "ok";
    expect([await outcome("tenant-a"), await outcome(otherTenant)]).toEqual(["ok", "tenant_mismatch"]);
  });

  test("an operator's credential reads every log", async () => {
    const { own, other, count } = await logsOf(gatewayOf());
    expect(count).toBe(2);
    for (const path of [...everyPath(own), ...everyPath(other)])
      expect([path, (await get(gatewayOf(), path, operatorToken)).status]).toEqual([path, 200]);
  });

  test("an answer to credentials forbids shared caches", async () => {
    const { own } = await logsOf(gatewayOf());
    const { headers } = await get(gatewayOf(), `/ledger/${own}/tile/0/000.p/1`, operatorToken);
    expect(headers["cache-control"]).toBe("private, max-age=31536000, immutable");
  });

  test.each([
    ["an operator's token that was changed", () => operatorToken.replace(/.$/, "_")],
    ["no token at all", () => "a.b.c"],
    ["the hash of a token", () => Buffer.from(hashOpsToken(operatorToken)).toString("hex")],
  ])("%s is refused, on every path", async (__, tokenOf) => {
    const { own } = await logsOf(gatewayOf());
    for (const path of ["/ledger", ...everyPath(own)]) {
      const { status, headers, json } = await get(gatewayOf(), path, tokenOf());
      expect(status).toBe(401);
      expect(headers["www-authenticate"]).toMatch(/^Bearer /);
      expect(json).toMatchObject({ status: "error", error: { code: "unauthenticated", reason: "invalid_token" } });
    }
  });

  test("a token without the needed scopes is refused", async () => {
    const token = await gatewayOf().token({ clientId: "one", scope: "evidence.write" });
    const { status, headers, json } = await get(gatewayOf(), "/ledger", token);
    expect([status, json.error.reason]).toEqual([403, "missing_scope"]);
    expect(headers["www-authenticate"]).toContain('scope="platform-api.access"');
  });

  test("health and metrics need no credentials", async () => {
    for (const path of ["/livez", "/readyz", "/metrics"])
      for (const token of [undefined, "wrong"]) expect((await get(gatewayOf(), path, token)).status).toBe(200);
  });
});

test("without configured credentials, everything is open on loopback and nothing off it", async () => {
  const { own } = await logsOf(local);
  for (const path of ["/ledger", ...everyPath(own)]) expect((await get(local, path)).status).toBe(200);
  for (const path of ["/ledger", ...everyPath((await logsOf(remote)).own)]) {
    const { status, headers, json } = await get(remote, path);
    expect([status, json.error.reason]).toEqual([401, "missing_token"]);
    expect(headers["www-authenticate"]).toBe('Bearer realm="ledger"');
  }
});

test("a bound token needs its certificate here too", async () => {
  const member = testClient();
  const { gateway } = await forTest(startSessionDeployment([member], { SVC_PROOF_OF_POSSESSION: "mtls" }));
  const { url, opsUrl } = gateway;
  const shows = (byte: number) => ({
    "x-svc-mtls-client-certificate": Buffer.alloc(32, byte).toString("base64url"),
  });
  const session = await sessionByRest(url, askOf(member), shows(1));
  if (!("token" in session)) throw new Error(session.message);
  const statusFor = async (headers: Record<string, string>) =>
    (await fetch(`${opsUrl}/ledger`, { headers: { authorization: `Bearer ${session.token}`, ...headers } })).status;
  expect(await statusFor(shows(1))).toBe(200);
  expect(await statusFor(shows(2))).toBe(401);
  expect(await statusFor({})).toBe(401);
});

test("a tenant proves with its own token that two receipts are of one log", async () => {
  const token = await local.token({ clientId: "one" });
  const receipts: Receipt[] = [];
  for (let count = 0; count < 3; count++) {
    const { body } = await rest(`${local.url}/v1/sdk/evidence`, { token, body: decisionless });
    receipts.push(fromJson(ReceiptSchema, body.ingestion.receipt));
  }
  const [earlier, , later] = receipts as [Receipt, Receipt, Receipt];
  const { json } = await get(local, "/ledger", token);
  const [key] = json.logs[0].verifier_keys;
  expect(await sameLog(local.opsUrl, token, key, earlier, later)).toBe(true);
  const other = (await get(local, "/ledger", operatorToken)).json.logs.at(-1).verifier_keys[0];
  await expect(sameLog(local.opsUrl, token, other, earlier, later)).rejects.toThrow();
  const stranger = await local.token({ clientId: "two" });
  await expect(sameLog(local.opsUrl, stranger, key, earlier, later)).rejects.toThrow("answers 404");
  const verified = (await Promise.all(receipts.map((receipt) => verifyReceipt(receipt, key)))) as [
    VerifiedReceipt,
    VerifiedReceipt,
  ];
  expect(await continues(verified[0], verified[1], "AAAA\n")).toBe(false);
  expect(await continues(verified[0], verified[1], "not base64!\n")).toBe(false);
});

describe("search", async () => {
  const { own: log } = await logsOf(local);
  const search = (query: string) => get(local, `/ledger/${log}/search?${query}`);

  test("finds what was recorded, in pages", async () => {
    const ids = [];
    for (let count = 0; count < 3; count++) ids.push(await record(local, "one", { artifact_digest: "sha256:paged" }));
    const first = (await search("artifact_digest=sha256:paged&limit=2")).json;
    expect(first).toMatchObject({
      service: "svc-platform-api",
      log,
      found: ids.slice(0, 2).map((record_id) => ({ record_id, kind: "evidence", erased: false })),
    });
    const second = (await search(`artifact_digest=sha256:paged&limit=2&after=${first.next}`)).json;
    expect(second.found).toMatchObject([{ record_id: ids[2] }]);
    expect(second.next).toBeUndefined();
    const [{ leaf_index, recorded_at }] = second.found;
    expect((await search(`record_id=${ids[2]}&from=${recorded_at}&subject=one`)).json.found).toMatchObject([
      { leaf_index, recorded_at },
    ]);
    expect((await search(`record_id=${ids[2]}&to=${recorded_at}`)).json.found).toEqual([]);
    expect((await search("principal=two")).json.found).toEqual([]);
  });

  test.each([
    ["newest=1", "newest must be true or false"],
    ["last=1d&from=2026-01-01T00:00:00Z", "last must not be given with from"],
    ["summary=true", "in the body of a POST"],
    ["limit=1001", "limit must be 1 to 1000"],
    ["after=-1&from=yesterday", "from must be an RFC 3339 time, such as 2026-01-31T00:00:00Z; after must be the index"],
    ["cid=", "cid must be 1 to 2048 characters of text"],
    ["record_id=%00", "record_id must be a record id"],
    ["resource_id=cust-1", "send personal values in the body of a POST, not in the URL"],
    ["cid=a&cid=b", "a parameter is given twice"],
    ["cid=%ff", "the URL is not UTF-8 in percent encoding"],
    ["cid=%ed%a0%80", "the URL is not UTF-8 in percent encoding"],
    ["cid=%zz", "the URL is not UTF-8 in percent encoding"],
    ["tenant=tenant-b", "the parameters are record_id"],
  ])("%s is refused with the reason", async (query, message) => {
    const { status, json } = await search(query);
    expect([status, json.error.reason]).toEqual([400, "invalid_request"]);
    expect(json.error.message).toContain(message);
  });

  describe("by the content of requests", () => {
    const post = async (body: string, token?: string, type = "application/json") => {
      const headers = { "content-type": type, ...(token !== undefined && { authorization: `Bearer ${token}` }) };
      return answerIn(await fetch(`${local.opsUrl}/ledger/${log}/search`, { method: "POST", body, headers }));
    };
    const tokenWith = (scope: string) => local.token({ clientId: "one", scope });

    test("reads terms from the body of a POST, for an operator and with the scope", async () => {
      const about = {
        resource: { kind: "person", id: "person-7" },
        labels: ["health"],
        attributes: { ward: "b=2" },
        outcome: "Failed: no key",
      };
      const id = await record(local, "one", about);
      await record(local, "one", { ...about, resource: { kind: "person", id: "person-8" } });
      const searching = await tokenWith("platform-api.access ledger.search");
      for (const token of [operatorToken, searching])
        for (const asked of [
          { resource_id: "person-7" },
          { resource_id: "person-7", label: "health", attribute: "ward=b=2", outcome: "failed", limit: 5 },
        ]) {
          const { status, json } = await post(JSON.stringify(asked), token);
          expect([status, json.found]).toEqual([200, [expect.objectContaining({ record_id: id })]]);
        }
      expect((await post(JSON.stringify({ resource_id: "person-7", label: "other" }), searching)).json.found).toEqual(
        [],
      );
    });

    test("reads no body with an encoding, or with two content types", async () => {
      const ask = async (...headers: string[]) => {
        const lines = ["Host: localhost", `Authorization: Bearer ${operatorToken}`, "Content-Length: 2", ...headers];
        return h1Exchange(local.opsUrl, [`POST /ledger/${log}/search HTTP/1.1`, ...lines, "", "{}"].join("\r\n"));
      };
      const json = "Content-Type: application/json";
      expect((await ask(json))?.status).toBe(200);
      expect((await ask(json, "Content-Encoding: gzip"))?.status).toBe(415);
      expect((await ask(json, "Content-Type: text/plain"))?.status).toBe(400);
    });

    test.each(["request_id", "resource_id", "label", "attribute", "operation", "outcome", "reason"])(
      "%s needs the scope or an operator",
      async (field) => {
        const body = JSON.stringify({ [field]: "x" });
        const plain = await post(body, await tokenWith("platform-api.access"));
        expect([plain.status, plain.json.error]).toMatchObject([
          403,
          { reason: "missing_scope", missing_scopes: ["ledger.search"] },
        ]);
        expect(plain.headers["www-authenticate"]).toContain('scope="ledger.search"');
        const anonymous = await post(body);
        expect([anonymous.status, anonymous.json.error.reason]).toEqual([401, "missing_token"]);
        expect(anonymous.headers["www-authenticate"]).toBe('Bearer realm="ledger"');
      },
    );

    test("returns summaries and counts, and logs the reader without the values", async () => {
      const resource = { kind: "customer", id: "cust-secret" };
      const record_id = await record(local, "one", { resource, event_type: "access" });
      const { json } = await post('{"resource_id":"cust-secret","newest":true,"summary":true}', operatorToken);
      expect(json.tree_size).toBeGreaterThan(1);
      expect(json.found).toMatchObject([
        { record_id, kind: "evidence", summary: { principal: "one", operation: "access", resource, citation: "none" } },
      ]);
      const counted = await post('{"resource_id":"cust-secret","count_by":"principal"}', operatorToken);
      expect(counted.json).toMatchObject({
        found: [],
        counted: { records: 1, values: [{ value: "one", records: 1 }] },
      });
      const plain = await tokenWith("platform-api.access");
      for (const body of ['{"summary":true}', '{"count_by":"day"}']) {
        expect((await post(body, plain)).json.error.reason).toBe("missing_scope");
        expect((await post(body)).json.error.reason).toBe("missing_token");
      }
      const events = local.logged
        .filter((line) => line.includes('"event":"ledger_searched"'))
        .map((line) => JSON.parse(line));
      expect(events.at(-1)).toMatchObject({
        category: "security",
        operator: "olga",
        log,
        fields: ["resource_id", "count_by"],
      });
      await search("limit=1");
      await post("{}", plain);
      const logged = local.logged.filter((line) => line.includes('"event":"ledger_searched"'));
      expect(JSON.parse(logged.at(-1) ?? "")).toMatchObject({ tenant_id: "tenant-a", principal_id: "one", fields: [] });
      expect(logged.join()).not.toContain("cust-secret");
    });

    test.each([
      ['{"label":"a","label":"b"}', "each member once"],
      ['{"label":"a","lab\\u0065l":"b"}', "each member once"],
      ['{"label":["a"]}', "label must be a string or a number"],
      ['{"tenant":"tenant-b"}', "the parameters are record_id"],
      ['{"__proto__":"x"}', "the parameters are record_id"],
      ['{"label":"\\u0000"}', "label must be 1 to 2048 characters of text"],
      ['{"outcome":"denied"}', "outcome must be one of allow, deny, accepted, completed, failed, aborted, refused"],
      ['{"label":"\\ud800"}', "label must be 1 to 2048 characters of text"],
      ["[]", "must be a JSON object"],
      ["", "must be a JSON object"],
    ])("%s is refused with the reason", async (body, message) => {
      const { status, json } = await post(body, operatorToken);
      expect([status, json.error.reason]).toEqual([400, "invalid_request"]);
      expect(json.error.message).toContain(message);
    });

    test("another content type, a larger body and a query are refused", async () => {
      const reasonOf = async (answer: ReturnType<typeof answerIn>) => (await answer).json.error.reason;
      expect(await reasonOf(post("label=a", operatorToken, "text/plain"))).toBe("unsupported_media_type");
      expect(await reasonOf(post("{}", operatorToken, "application/json; charset=latin1"))).toBe(
        "unsupported_media_type",
      );
      expect(await reasonOf(post(`{"label":"${"x".repeat(70_000)}"}`, operatorToken))).toBe("body_too_large");
      const headers = { authorization: `Bearer ${operatorToken}`, "content-type": "application/json" };
      const withQuery = await fetch(`${local.opsUrl}/ledger/${log}/search?label=a`, {
        method: "POST",
        body: "{}",
        headers,
      });
      expect(withQuery.status).toBe(400);
    });
  });
});
