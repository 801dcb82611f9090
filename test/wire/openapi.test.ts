/** The published pages of a real gateway, and its answers against its document. */
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { gatewayForFile, type RestAnswer, rest, startGateway } from "../harness/gateway.ts";
import { forTest } from "../harness/lifetimes.ts";

type Any = RestAnswer["body"];

const gateway = await gatewayForFile();
const token = await gateway.token();

/** Fetches a page, its whole body included: a connection with an unread body would hold up the end of the test. */
async function page(path: string, init: RequestInit = {}, from = gateway) {
  const response = await fetch(new URL(path, `${from.url}/`), init);
  const { status, headers } = response;
  return { status, headers, text: await response.text() };
}

const fetchJson = async (path: string): Promise<Any> => JSON.parse((await page(path)).text);

describe("the document", () => {
  test("is served without credentials, equal in both forms", async () => {
    const json = await page("/openapi.json");
    const yaml = await page("/openapi.yaml");
    expect([json.status, json.headers.get("content-type")]).toEqual([200, "application/json"]);
    expect([yaml.status, yaml.headers.get("content-type")]).toEqual([200, "application/yaml"]);
    expect(parse(yaml.text)).toEqual(JSON.parse(json.text));
  });

  test("is revalidated by its entity tag", async () => {
    const first = await page("/openapi.json");
    const etag = first.headers.get("etag") ?? "";
    expect(first.headers.get("cache-control")).toBe("no-cache");
    for (const known of [etag, `W/${etag}`, `"other", ${etag}`, "*"]) {
      const again = await page("/openapi.json", { headers: { "if-none-match": known } });
      expect([again.status, again.headers.get("etag"), again.text]).toEqual([304, etag, ""]);
    }
    const changed = await page("/openapi.json", { headers: { "if-none-match": '"other"' } });
    expect(changed.status).toBe(200);
  });

  test("has examples that are the service's answers", async () => {
    const document = await fetchJson("/openapi.json");
    for (const [path, item] of Object.entries<Any>(document.paths)) {
      const operation = item.get ?? item.post;
      const answers = operation.responses["200"].content["application/json"].examples;
      for (const [name, { value }] of Object.entries<Any>(answers)) {
        const body = operation.requestBody?.content["application/json"].examples[name].value;
        const headers = { "x-svc-receipt": "brief" };
        const answer = await rest(gateway.url + path, { token, headers, ...(body !== undefined && { body }) });
        expect({ path, name, status: answer.status, body: answer.body }).toMatchObject({ status: 200 });
        expect({ path, name, answer: comparable(answer.body) }).toEqual({ path, name, answer: comparable(value) });
      }
    }
  });
});

/** An answer without what differs from deployment to deployment and from call to call. */
function comparable(answer: Any): Any {
  const { subject: _subject, ...caller } = answer.caller;
  const copy = structuredClone({ ...answer, caller });
  if (copy.auth_configuration !== undefined) copy.auth_configuration = Object.keys(copy.auth_configuration);
  for (const domain of copy.platform_domains ?? []) if (domain.domain === "policy") domain.reason = "";
  const recorded = copy.decision ?? copy.registration ?? copy.ingestion;
  if (recorded !== undefined) recorded.receipt = Object.keys(recorded.receipt);
  if (copy.decision !== undefined) {
    const { policy_inputs } = copy.decision;
    Object.assign(copy.decision, { decision_id: "", policy_revision: "" });
    // The policy set decides what it reads; the example shows some of it.
    if (policy_inputs !== undefined) copy.decision.policy_inputs = policy_inputs.length > 0;
  }
  return copy;
}

describe("pages", () => {
  const paths = ["/", "/openapi.json", "/openapi.yaml", "/explorer", "/explorer/swagger-ui.css"];
  const more = ["/explorer/swagger-ui-bundle.js", "/explorer/explorer.css", "/explorer/explorer.js"];

  test.each([...paths, ...more])("%s answers GET and HEAD alike, and nothing else", async (path) => {
    const get = await page(path);
    const head = await page(path, { method: "HEAD" });
    expect([get.status, head.status, head.text]).toEqual([200, 200, ""]);
    expect(head.headers.get("content-length")).toBe(String(Buffer.byteLength(get.text)));
    expect(head.headers.get("etag")).toBe(get.headers.get("etag"));
    expect(get.headers.get("x-content-type-options")).toBe("nosniff");
    expect(get.headers.get("content-security-policy")).toContain("default-src 'none'");
    expect(get.headers.get("content-security-policy")).not.toMatch(/unsafe|https?:|\*/);
    expect(get.headers.get("x-request-id")).not.toBeNull();
    const post = await rest(gateway.url + path, { method: "POST" });
    expect([post.status, post.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
    expect(post.body.error.reason).toBe("method_not_allowed");
  });

  test("the landing page links with relative addresses, in HTML and in JSON", async () => {
    const { text: html } = await page("/", { headers: { accept: "text/html" } });
    const links = [...html.matchAll(/href="([^"]+)"/g)].map(([, href]) => href as string);
    const followed = links.filter((href) => !href.startsWith("data:"));
    expect(followed).toEqual(["explorer", "openapi.json", "openapi.yaml", "explorer"]);
    for (const href of followed) expect((await page(href)).status).toBe(200);
    const json = await page("/", { headers: { accept: "application/json" } });
    expect([json.headers.get("content-type"), json.headers.get("vary")]).toEqual(["application/json", "accept"]);
    expect(JSON.parse(json.text)).toMatchObject({ service: "svc-platform-api", status: "ready" });
  });
});

test("if switched off, explorer and document are not served", async () => {
  const other = await forTest(startGateway({ env: { SVC_EXPLORER: "off" } }));
  for (const path of ["/openapi.json", "/openapi.yaml", "/explorer", "/explorer/explorer.js"]) {
    const answer = await rest(other.url + path, {});
    expect([path, answer.status, answer.body.error.reason]).toEqual([path, 404, "no_route"]);
  }
  expect((await page("/", {}, other)).text).not.toMatch(/href="(explorer|openapi)/);
});
