/** Policies on the operator listener: in force, as they were, and drafts that are tried beside them. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { recordSamples } from "../../dev/sample-records.ts";
import { searchingClients, writeOperators } from "../harness/console.ts";
import { folderForFile } from "../harness/folder.ts";
import { gatewayForFile, rest, unpolled } from "../harness/gateway.ts";

const policies = join(import.meta.dirname, "../../policies");
const tokens = ["olga", "otto"].map((_, at) => Buffer.alloc(32, 21 + at).toString("base64url"));
const [operatorToken = "", otherToken = ""] = tokens;
const clients = searchingClients("tenant-a", "tenant-b");

const directory = folderForFile("policy-routes");
const credentials = await writeOperators(directory, { olga: operatorToken, otto: otherToken });
const env = { SVC_OPS_CREDENTIALS: credentials };
const gateway = await gatewayForFile({ issuer: { clients }, env, overrides: unpolled });
for (const { clientId } of clients) await recordSamples({ url: gateway.url, token: await gateway.token({ clientId }) });
const ask = (path: string, token = operatorToken, body?: unknown) => rest(gateway.opsUrl + path, { token, body });
const { logs } = (await ask("/ledger")).body;
const { name: log } = logs.find(({ tenant_id }: { tenant_id: string }) => tenant_id === "tenant-a");

const playground = () => `/ledger/${log}/playground`;
const filesInForce = async (): Promise<Record<string, string>> => (await ask(playground())).body.files;

describe("the policies of a tenant", () => {
  test("are those in force, with the revisions that decided, since when, and how often", async () => {
    const { status, body } = await ask(`/ledger/${log}/policies`);
    expect(status).toBe(200);
    const [newest] = body.revisions;
    expect(newest.revision).toBe(body.current_revision);
    const searched = await ask(`/ledger/${log}/search`, operatorToken, { count_by: "day" });
    expect(newest.decisions).toBeGreaterThan(5);
    expect(newest.decisions).toBeLessThan(searched.body.counted.records);
    expect(newest.first_at <= newest.last_at).toBe(true);
    expect(body.policies).toContainEqual(
      expect.objectContaining({ layer: "tenant", set: "default", id: "eu-residency", effect: "forbid" }),
    );
    expect(new Set(body.policies.map(({ set }: { set: string }) => set))).toEqual(new Set(["platform", "default"]));
  });

  test("come with their texts, as of a revision", async () => {
    const { body } = await ask(`/ledger/${log}/policies`);
    const texts = await ask(`/ledger/${log}/policies/${body.current_revision}`);
    expect(texts.body.layers.map(({ layer }: { layer: string }) => layer)).toEqual(["platform", "tenant"]);
    const text = await readFile(join(policies, "default/handling.cedar"), "utf8");
    expect(texts.body.layers[1].files["handling.cedar"]).toBe(text);
    for (const unknown of [`sha256:${"0".repeat(64)}`, "x", "%00"])
      expect((await ask(`/ledger/${log}/policies/${unknown}`)).status).toBe(404);
  });

  test("are shown to a tenant without the platform's, and never of another tenant's log", async () => {
    const [own, stranger] = [
      await gateway.token({ clientId: "tenant-a" }),
      await gateway.token({ clientId: "tenant-b" }),
    ];
    const { body } = await ask(`/ledger/${log}/policies`, own);
    expect(new Set(body.policies.map(({ layer }: { layer: string }) => layer))).toEqual(new Set(["tenant"]));
    const texts = await ask(`/ledger/${log}/policies/${body.current_revision}`, own);
    expect(texts.body.layers.map(({ set }: { set: string }) => set)).toEqual(["default"]);
    for (const path of ["policies", `policies/${body.current_revision}`, "playground"])
      expect([path, (await ask(`/ledger/${log}/${path}`, stranger)).status]).toEqual([path, 404]);
    for (const draft of [undefined, { files: {} }]) expect((await ask(playground(), own, draft)).status).toBe(404);
    const unscoped = await gateway.token({ clientId: "tenant-a", scope: "platform-api.access" });
    expect((await ask(`/ledger/${log}/policies`, unscoped)).status).toBe(403);
    expect((await fetch(`${gateway.opsUrl}/ledger/${log}/policies`)).status).toBe(401);
  });
});

describe("a draft", () => {
  test("of the files in force passes their tests, and decides nothing differently", async () => {
    const { body: given } = await ask(playground());
    expect(given.in_force).toBe(true);
    expect(Object.keys(given.files)).toContain("tests/default.yaml");
    const { status, body } = await ask(playground(), operatorToken, { files: given.files, since: "1d" });
    expect([status, body.tests.failed, body.diff.changes]).toEqual([200, 0, 0]);
    expect(body.policy_revision).toBe(body.current_revision);
    expect(body.recorded.compared).toBeGreaterThan(5);
    expect(body.recorded.ways).toEqual([]);
  });

  test("that forbids more differs in questions and recorded decisions, and explains its answers", async () => {
    const files = await filesInForce();
    const forbid = '@id("closed")\nforbid (principal, action, resource);\n';
    const questions = `
      tenant: tenant-a
      action: protect
      claimed: { workload: { application: payroll }, resource: { kind: customer-record } }`;
    const { body } = await ask(playground(), operatorToken, {
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
    expect((await ask(playground())).body).toMatchObject({ in_force: true, files });
  });

  test("with a mistake gets the mistake's place", async () => {
    const files = { ...(await filesInForce()), "default/<img src=x>.cedar": 'permit (principal, action == "x");' };
    const { status, body } = await ask(playground(), operatorToken, { files });
    expect(status).toBe(200);
    expect(body.problems[0]).toMatchObject({ file: "default/<img src=x>.cedar", line: 1 });
    expect(body.tests).toBeUndefined();
    const noFolder = await ask(playground(), operatorToken, { files: { ...(await filesInForce()), default: "" } });
    expect(noFolder.body.problems[0]).toMatchObject({ file: "default" });
    const unreadable = await ask(playground(), operatorToken, {
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
    expect((await ask(playground(), operatorToken, draft)).status).toBe(400);
  });

  test("asks a bounded number of questions, of bounded size", async () => {
    const files = await filesInForce();
    const { body } = await ask(playground(), operatorToken, { files, questions: `[${"{},".repeat(21)}]` });
    expect(body.problems[0].file).toBe("questions");
    expect((await ask(playground(), operatorToken, { files: { x: "y".repeat(1024 * 1024) } })).status).toBe(413);
  });

  test("runs one at a time for each credential; another operator waits for its turn", async () => {
    // A mistake answers soonest.
    const files = { ...(await filesInForce()), "default/broken.cedar": "permit" };
    const answers = await Promise.all(
      [operatorToken, operatorToken, otherToken].map((token) => ask(playground(), token, { files })),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 429]);
  });
});
