/**
 * The routes of the operator listener that the console is made of: its files, records with receipts, explanations,
 * reports, policies in force and as they were, and drafts that are tried beside them.
 */
import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fromJson } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { verifyReceipt } from "../../clients/typescript/src/receipts.ts";
import { sampleCalls } from "../../dev/requests.ts";
import { recordSamples } from "../../dev/sample-records.ts";
import { ReceiptSchema } from "../../gen/platform/sdk/v1/common_pb.ts";
import { searchingClients, writeOperators } from "../harness/console.ts";
import { folderForFile } from "../harness/folder.ts";
import { gatewayForFile, rest, unpolled } from "../harness/gateway.ts";
import { erasing, run } from "../unit/cli/surroundings.ts";

const [operatorToken = "", otherToken = ""] = [9, 10].map((byte) => Buffer.alloc(32, byte).toString("base64url"));
const scopes = ["platform-api.access", "evidence.write", "ledger.search"];
const clients = searchingClients("tenant-a", "tenant-b", "tenant-d");

const directory = folderForFile("console-routes");
const credentials = await writeOperators(directory, { olga: operatorToken, otto: otherToken });
const env = { SVC_OPS_CREDENTIALS: credentials };
const gateway = await gatewayForFile({ issuer: { clients }, env, overrides: unpolled });
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
const logOf = (tenant: string) => logs.find(({ tenant_id }: { tenant_id: string }) => tenant_id === tenant);
const { name: log, verifier_keys: keys } = logOf("tenant-a");
const [key] = keys;
await recordSamples({ url: gateway.url, token: await gateway.token({ clientId: "tenant-d" }) });

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

  test("is not found under another log, or if it never existed", async () => {
    const stranger = await gateway.token({ clientId: "tenant-b" });
    expect((await get(`/ledger/${logOf("tenant-b").name}/record/${decisionId}`, stranger)).status).toBe(404);
    for (const id of ["01890a5d-ac96-774b-bcce-b302099a8057", "x", "%00"])
      for (const kind of ["record", "explanation"])
        expect((await get(`/ledger/${log}/${kind}/${id}`, operatorToken)).status).toBe(404);
  });
});

const { body: inForce } = await get(`/ledger/${log}/policies`, operatorToken);
const period = "from=2026-01-01T00:00:00Z&to=2100-01-01T00:00:00Z";

test.each([
  ["a record", `record/${decisionId}`],
  ["an explanation", `explanation/${decisionId}`],
  ["a report", `report?template=access&${period}`],
  ["the policies", "policies"],
  ["their texts", `policies/${inForce.current_revision}`],
  ["the playground", "playground"],
])("%s: credentials are needed, by a tenant the scope too, and only its own log is there", async (_, path) => {
  const statusOf = async (token?: string, of = log) => (await get(`/ledger/${of}/${path}`, token)).status;
  expect(await statusOf()).toBe(401);
  const unscoped = await gateway.token({ clientId: "tenant-a", scope: scopes.slice(0, 2).join(" ") });
  expect(await statusOf(unscoped)).toBe(403);
  expect(await statusOf(await gateway.token({ clientId: "tenant-b" }))).toBe(404);
  expect(await statusOf(operatorToken, "0".repeat(32))).toBe(404);
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
  const { name } = logOf("tenant-b");
  const which = ["--tenant", "tenant-b", "--record", otherDecisionId];
  expect((await run("ledger", "erase", "--config", settings, ...which, ...erasing)).code).toBe(0);
  const { status, body } = await get(`/ledger/${name}/explanation/${otherDecisionId}`, operatorToken);
  expect([status, body.error.message]).toEqual([404, "the decision, or what it relied on, was erased"]);
});

describe("a report", () => {
  const pathOf = (query: string) => `/ledger/${log}/report?${query}`;

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

const policies = join(import.meta.dirname, "../../policies");
const { name: sampled } = logOf("tenant-d");
const ask = (path: string, token = operatorToken, body?: unknown) => rest(gateway.opsUrl + path, { token, body });
const playground = `/ledger/${sampled}/playground`;
const filesInForce = async (): Promise<Record<string, string>> => (await ask(playground)).body.files;

describe("the policies of a tenant", () => {
  test("are those in force, with the revisions that decided, since when, and how often", async () => {
    const { status, body } = await ask(`/ledger/${sampled}/policies`);
    expect(status).toBe(200);
    const [newest] = body.revisions;
    expect(newest.revision).toBe(body.current_revision);
    const searched = await ask(`/ledger/${sampled}/search`, operatorToken, { count_by: "day" });
    expect(newest.decisions).toBeGreaterThan(5);
    expect(newest.decisions).toBeLessThan(searched.body.counted.records);
    expect(newest.first_at <= newest.last_at).toBe(true);
    expect(body.policies).toContainEqual(
      expect.objectContaining({ layer: "tenant", set: "default", id: "eu-residency", effect: "forbid" }),
    );
    expect(new Set(body.policies.map(({ set }: { set: string }) => set))).toEqual(new Set(["platform", "default"]));
  });

  test("come with their texts, as of a revision", async () => {
    const { body } = await ask(`/ledger/${sampled}/policies`);
    const texts = await ask(`/ledger/${sampled}/policies/${body.current_revision}`);
    expect(texts.body.layers.map(({ layer }: { layer: string }) => layer)).toEqual(["platform", "tenant"]);
    const text = await readFile(join(policies, "default/handling.cedar"), "utf8");
    expect(texts.body.layers[1].files["handling.cedar"]).toBe(text);
    for (const unknown of [`sha256:${"0".repeat(64)}`, "x", "%00"])
      expect((await ask(`/ledger/${sampled}/policies/${unknown}`)).status).toBe(404);
  });

  test("are shown to a tenant without the platform's, and no draft is", async () => {
    const own = await gateway.token({ clientId: "tenant-d" });
    const { body } = await ask(`/ledger/${sampled}/policies`, own);
    expect(new Set(body.policies.map(({ layer }: { layer: string }) => layer))).toEqual(new Set(["tenant"]));
    const texts = await ask(`/ledger/${sampled}/policies/${body.current_revision}`, own);
    expect(texts.body.layers.map(({ set }: { set: string }) => set)).toEqual(["default"]);
    for (const draft of [undefined, { files: {} }]) expect((await ask(playground, own, draft)).status).toBe(404);
  });
});

describe("a draft", () => {
  test("of the files in force passes their tests, and decides nothing differently", async () => {
    const { body: given } = await ask(playground);
    expect(given.in_force).toBe(true);
    expect(Object.keys(given.files)).toContain("tests/default.yaml");
    const { status, body } = await ask(playground, operatorToken, { files: given.files, since: "1d" });
    expect([status, body.tests.failed, body.diff.changes]).toEqual([200, 0, 0]);
    expect(body.policy_revision).toBe(body.current_revision);
    expect(body.recorded.compared).toBeGreaterThan(5);
    expect(body.recorded.ways).toEqual([]);
  });

  test("that forbids more differs in questions and recorded decisions, and explains its answers", async () => {
    const files = await filesInForce();
    const forbid = '@id("closed")\nforbid (principal, action, resource);\n';
    const questions = `
      tenant: tenant-d
      action: protect
      claimed: { workload: { application: payroll }, resource: { kind: customer-record } }`;
    const { body } = await ask(playground, operatorToken, {
      files: { ...files, "default/closed.cedar": forbid },
      questions,
      since: "1d",
    });
    expect(body.problems).toBeUndefined();
    expect(body.tests.failed).toBeGreaterThan(0);
    expect(body.diff.ways[0].after).toMatchObject({ allow: false });
    expect(body.recorded.ways[0]).toMatchObject({ before: { allow: true }, after: { allow: false } });
    expect(body.answers[0].explanation).toMatchObject({ allow: false, reasons: ["tenant/closed"] });
    expect(body.answers[0].in_force.reasons).not.toContain("tenant/closed");
    // Nothing of it stays.
    expect((await ask(playground)).body).toMatchObject({ in_force: true, files });
  });

  test("with a mistake gets the mistake's place", async () => {
    const files = { ...(await filesInForce()), "default/<img src=x>.cedar": 'permit (principal, action == "x");' };
    const { status, body } = await ask(playground, operatorToken, { files });
    expect(status).toBe(200);
    expect(body.problems[0]).toMatchObject({ file: "default/<img src=x>.cedar", line: 1 });
    expect(body.tests).toBeUndefined();
    const noFolder = await ask(playground, operatorToken, { files: { ...(await filesInForce()), default: "" } });
    expect(noFolder.body.problems[0]).toMatchObject({ file: "default" });
    const unreadable = await ask(playground, operatorToken, {
      files: await filesInForce(),
      questions: "{ action: fly",
    });
    expect(unreadable.body.problems[0].file).toBe("questions");
  });

  test.each([
    ["no files", {}],
    ["files that are no texts", { files: { "manifest.yaml": 7 } }],
    ["a file twice", '{"files":{"a.cedar":"","a.cedar":"permit (principal, action, resource);"}}'],
    ["another member", { files: {}, save: true }],
    ["a period that is none", { files: {}, since: "yesterday" }],
    ["a path of two forms", { files: { "default/./a.cedar": "" } }],
    ["a path that leaves the folder", { files: { "../a.cedar": "" } }],
    ["a path that is too long", { files: { ["x".repeat(300)]: "" } }],
    ["too many files", { files: Object.fromEntries(Array.from({ length: 1_001 }, (_, at) => [`f${at}`, ""])) }],
  ])("with %s is refused", async (_, draft) => {
    expect((await ask(playground, operatorToken, draft)).status).toBe(400);
  });

  test("asks a bounded number of questions, of bounded size", async () => {
    const files = await filesInForce();
    const { body } = await ask(playground, operatorToken, { files, questions: `[${"{},".repeat(21)}]` });
    expect(body.problems[0].file).toBe("questions");
    expect((await ask(playground, operatorToken, { files: { x: "y".repeat(1024 * 1024) } })).status).toBe(413);
  });

  test("runs one at a time for each credential; another operator waits for its turn", async () => {
    // A mistake answers soonest.
    const files = { ...(await filesInForce()), "default/broken.cedar": "permit" };
    const answers = await Promise.all(
      [operatorToken, operatorToken, otherToken].map((token) => ask(playground, token, { files })),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 429]);
  });
});
