/** The routes of the operator listener that the console is made of: its files, records with receipts, explanations. */
import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fromJson } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { verifyReceipt } from "../../clients/typescript/src/receipts.ts";
import { sampleCalls } from "../../dev/requests.ts";
import { ReceiptSchema } from "../../gen/platform/sdk/v1/common_pb.ts";
import { searchingClients, writeOperators } from "../harness/console.ts";
import { folderForFile } from "../harness/folder.ts";
import { gatewayForFile, rest } from "../harness/gateway.ts";
import { erasing, run } from "../unit/cli/surroundings.ts";

const operatorToken = Buffer.alloc(32, 9).toString("base64url");
const scopes = ["platform-api.access", "evidence.write", "ledger.search"];
const clients = searchingClients("tenant-a", "tenant-b");

const directory = folderForFile("console-routes");
const credentials = await writeOperators(directory, { olga: operatorToken });
const gateway = await gatewayForFile({ issuer: { clients }, env: { SVC_OPS_CREDENTIALS: credentials } });
const { dataDir } = gateway;
/** Of commands on the gateway's store. */
const settings = join(dataDir, "settings.yaml");
const store = `sqlite:${join(dataDir, "platform.db")}`;
await writeFile(settings, JSON.stringify({ SVC_STORE: store, SVC_LEDGER_KEY: join(dataDir, "ledger.key") }));
const plan = sampleCalls().find(({ route }) => route.endsWith("/protection-plan"));
const decided = clients.map(async ({ clientId }): Promise<string> => {
  const token = await gateway.token({ clientId });
  const { body } = await rest(`${gateway.url}${plan?.route}`, { token, body: plan?.body });
  return body.decision.decision_id;
});
const [decisionId = "", otherDecisionId = ""] = await Promise.all(decided);
const { logs } = (await get("/ledger", operatorToken)).body;
const own = logs.find(({ tenant_id }: { tenant_id: string }) => tenant_id === "tenant-a");
const log: string = own.name;
const [key] = own.verifier_keys;

async function get(path: string, token?: string) {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const response = await fetch(gateway.opsUrl + path, { headers });
  const text = await response.text();
  const isJson = response.headers.get("content-type")?.startsWith("application/json") === true;
  // biome-ignore lint/suspicious/noExplicitAny: tests read members of many shapes, and fail where they are not there.
  return { status: response.status, headers: response.headers, text, body: (isJson ? JSON.parse(text) : {}) as any };
}

describe("a record", () => {
  test("comes with a full receipt under the newest checkpoint, and verifies", async () => {
    for (const token of [operatorToken, await gateway.token({ clientId: "tenant-a" })]) {
      const { status, body } = await get(`/ledger/${log}/record/${decisionId}`, token);
      expect([status, body.erased]).toEqual([200, false]);
      const { record, leafIndex } = await verifyReceipt(fromJson(ReceiptSchema, body.receipt), key);
      expect(leafIndex).toBe(1);
      expect(record).toMatchObject({ kind: "decision", record_id: decisionId, tenant_id: "tenant-a" });
    }
  });

  test("leaves a log line with the reader, and without the record's id", async () => {
    await get(`/ledger/${log}/record/${decisionId}`, operatorToken);
    const line = gateway.logged.findLast((text) => text.includes("ledger_searched")) ?? "{}";
    expect(JSON.parse(line)).toMatchObject({ operator: "olga", log, fields: ["record_id"] });
    expect(line).not.toContain(decisionId);
  });

  test("is not found for another tenant, under another log, or if it never existed", async () => {
    const stranger = await gateway.token({ clientId: "tenant-b" });
    const { body } = await get("/ledger", stranger);
    const unknown = "01890a5d-ac96-774b-bcce-b302099a8057";
    for (const path of [
      `/ledger/${log}/record/${decisionId}`,
      `/ledger/${log}/explanation/${decisionId}`,
      `/ledger/${body.logs[0].name}/record/${decisionId}`,
    ])
      expect([path, (await get(path, stranger)).status]).toEqual([path, 404]);
    for (const id of [unknown, "x", "%00"])
      for (const kind of ["record", "explanation"])
        expect((await get(`/ledger/${log}/${kind}/${id}`, operatorToken)).status).toBe(404);
  });

  test("needs credentials, and for tenants the scope", async () => {
    const unscoped = await gateway.token({ clientId: "tenant-a", scope: scopes.slice(0, 2).join(" ") });
    for (const kind of ["record", "explanation"]) {
      expect((await get(`/ledger/${log}/${kind}/${decisionId}`)).status).toBe(401);
      expect((await get(`/ledger/${log}/${kind}/${decisionId}`, unscoped)).status).toBe(403);
    }
  });
});

describe("an explanation", () => {
  test("shows which policies in force decided, and what they read", async () => {
    const { status, body } = await get(`/ledger/${log}/explanation/${decisionId}`, operatorToken);
    expect(status).toBe(200);
    expect(body.recorded_revision).toBe(body.current_revision);
    expect(body.explanation.allow).toBe(true);
    expect(body.explanation.inputs.length).toBeGreaterThan(0);
    expect(body.explanation.layers.map(({ layer }: { layer: string }) => layer)).toEqual(["platform", "tenant"]);
  });

  test("is refused to tenants, because it names policies of the platform", async () => {
    const own = await gateway.token({ clientId: "tenant-a" });
    const { status, body } = await get(`/ledger/${log}/explanation/${decisionId}`, own);
    expect([status, body.error.message]).toEqual([404, "explanations are for operators"]);
  });
});

test("an explanation of an erased decision says that it was erased", async () => {
  const { name } = logs.find(({ tenant_id }: { tenant_id: string }) => tenant_id === "tenant-b");
  const which = ["--tenant", "tenant-b", "--record", otherDecisionId];
  expect((await run("ledger", "erase", "--config", settings, ...which, ...erasing)).code).toBe(0);
  const { status, body } = await get(`/ledger/${name}/explanation/${otherDecisionId}`, operatorToken);
  expect([status, body.error.message]).toEqual([404, "the decision, or what it relied on, was erased"]);
});

describe("a report", () => {
  const period = "from=2026-01-01T00:00:00Z&to=2100-01-01T00:00:00Z";
  const pathOf = (query = `template=access&${period}`, name = log) => `/ledger/${name}/report?${query}`;

  test("equals the command's file, for operators and for the tenant", async () => {
    const out = join(dataDir, "report.html");
    const asked = ["--tenant", "tenant-a", "--template", "unevidenced", "--out", out, "--csv"];
    const range = ["--from", "2026-01-01T00:00:00Z", "--to", "2100-01-01T00:00:00Z"];
    const written = await run("ledger", "report", "--config", settings, ...asked, ...range);
    expect(written.err).toBe("");
    for (const token of [operatorToken, await gateway.token({ clientId: "tenant-a" })])
      for (const format of ["html", "csv"]) {
        const { status, headers, text } = await get(pathOf(`template=unevidenced&${period}&format=${format}`), token);
        expect([status, text]).toEqual([200, await readFile(out.replace("html", format), "utf8")]);
        expect(text).toContain(decisionId);
        expect(headers.get("content-type")).toBe(`text/${format}; charset=utf-8`);
        expect(headers.get("content-security-policy")).toMatch(/^default-src 'none'; style-src 'sha256-.*; sandbox$/);
      }
  });

  test("is served as counts too, for plots", async () => {
    const { body } = await get(pathOf("template=unevidenced&last=1d&format=json"), operatorToken);
    expect(body).toMatchObject({ records: 1, evidence: { missing: 1 }, values: [{ records: 1 }] });
    expect(body.revisions).toHaveLength(1);
    expect(body.by_time.reduce((sum: number, { records }: { records: number }) => sum + records, 0)).toBe(1);
  });

  test("needs credentials, for tenants the scope, and is refused to other tenants", async () => {
    expect((await get(pathOf())).status).toBe(401);
    const unscoped = await gateway.token({ clientId: "tenant-a", scope: scopes.slice(0, 2).join(" ") });
    expect((await get(pathOf(), unscoped)).status).toBe(403);
    const stranger = await gateway.token({ clientId: "tenant-b" });
    expect((await get(pathOf(), stranger)).status).toBe(404);
    expect((await get(pathOf(undefined, "0".repeat(32)), operatorToken)).status).toBe(404);
  });

  test.each([
    ["template=all&last=1d", "template must be one of access"],
    ["template=access", "last or from must be given"],
    ["template=access&last=1d&to=2020-01-01T00:00:00Z", "to must be after it"],
    ["template=access&last=1d&format=pdf", "format must be one of html, csv, json"],
    ["template=access&last=1d&last=2d", "a parameter is given twice"],
    ["template=access&last=1d&outcome=deny", "send personal values in the body"],
    ["template=access&last=1d&tenant=tenant-b", "the parameters are template"],
  ])("is refused with %s", async (query, message) => {
    const { status, body } = await get(pathOf(query), operatorToken);
    expect([status, body.error.message]).toEqual([400, expect.stringContaining(message)]);
  });
});

describe("the files of the console", () => {
  const isBuilt = existsSync(join(import.meta.dirname, "../../console/dist/index.html"));

  test.each(["/console", "/console/logs/x/ledger", "/console/verify"])(
    "%s serves the document, or says how to build it",
    async (path) => {
      const { status, headers, text, body } = await get(path);
      if (!isBuilt)
        return expect([status, body.error.message]).toEqual([404, expect.stringContaining("npm run build")]);
      expect([status, headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
      expect(text).toContain('<div id="console">');
      expect(text).not.toMatch(/<script(?![^>]* src=)/);
      const policy = headers.get("content-security-policy");
      for (const part of ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "trusted-types 'none'"])
        expect(policy).toContain(part);
      return undefined;
    },
  );

  test.each(["..%2Findex.html", "%2e%2e%2f%2e%2e%2fpackage.json", ".env", "a.map", "x.js%00", "absent-1.js"])(
    "no other file is served: %s",
    async (name) => {
      const { status, text } = await get(`/console/assets/${name}`);
      expect(status).toBe(404);
      expect(text).not.toContain("svc-platform-console");
    },
  );
});
