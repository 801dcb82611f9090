/** The program as it is deployed, bundled: it starts by itself, and every thread and every file that is loaded late is there. */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeEach, expect, test } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import { writeAppFiles } from "../../scripts/app-files.ts";
import { productionPackages } from "../../scripts/packages.ts";
import { furtherNames } from "../../src/domain/routes.ts";
import { folderForFile } from "../harness/folder.ts";
import { type Gateway, rest } from "../harness/gateway.ts";
import { issuerForFile } from "../harness/issuer-for-file.ts";
import { forTest } from "../harness/lifetimes.ts";
import { everyApi } from "../harness/methods.ts";
import { type RunningService, serviceSettings, spawnService, startService } from "../harness/process.ts";
import { sharedPostgres } from "../harness/shared-postgres.ts";
import { tlsFetch } from "../harness/tls-callers.ts";

const fixtures = join(import.meta.dirname, "../unit/config/fixtures");
let directory: string;
let settings: Record<string, string>;

const app = folderForFile("built");
await writeAppFiles(app);
const program = join(app, "main.js");
const issuer = await issuerForFile();
beforeEach(() => {
  directory = mkdtempSync(join(app, "data-"));
  settings = serviceSettings(directory, issuer.url);
});

const spawn = (environment: Readonly<Record<string, string>>, of = program) =>
  forTest(spawnService(directory, environment, of));

async function start(more: Readonly<Record<string, string>> = {}): Promise<RunningService> {
  const service = await forTest(startService(directory, { ...settings, ...more }, program));
  await expect.poll(async () => (await rest(`${service.opsUrl}/readyz`, {})).status).toBe(200);
  return service;
}

/** Runs a command. Rejects where it fails. */
async function cli(...args: string[]): Promise<string> {
  const env = { PATH: process.env.PATH ?? "", ...settings };
  return (await promisify(execFile)(process.execPath, [join(app, "cli.js"), ...args], { cwd: directory, env })).stdout;
}

const scope = "platform-api.access policy.read keys.use artifacts.write evidence.write";
const token = () => issuer.token({ scope });
const plan = sampleCalls().find(({ route }) => route.endsWith("/protection-plan"));

/** Makes all eight calls. */
async function callAll({ url }: Pick<Gateway, "url">): Promise<void> {
  for (const { route, body } of sampleCalls())
    expect([route, (await rest(`${url}${route}`, { token: token(), body })).status]).toEqual([route, 200]);
}

test("every thread answers: policy check, writer and reader", async () => {
  const service = await start({ SVC_LOG_LEVEL: "debug" });
  await callAll(service);
  const bytes = Buffer.from("an object");
  const object = {
    artifact_object_b64: bytes.toString("base64"),
    artifact_digest: `sha256:${createHash("sha256").update(bytes).digest("hex")}`,
  };
  const register = sampleCalls().find(({ route }) => route.endsWith("/artifact-register"));
  const body = { ...register?.body, ...object };
  const registered = await rest(`${service.url}${register?.route}`, { token: token(), body });
  expect([registered.status, registered.body]).toEqual([200, expect.anything()]);
  const { decision } = (await rest(`${service.url}${plan?.route}`, { token: token(), body: plan?.body })).body;
  const log = decision.receipt.log_origin.replace(/^.*\//, "");
  const found = await rest(`${service.opsUrl}/ledger/${log}/search`, {});
  expect(JSON.stringify(found.body)).toContain(decision.decision_id);
  service.child.kill("SIGTERM");
  expect(await service.ended).toEqual({ code: 0, signal: null });
  expect(service.errors()).toBe("");
  expect(JSON.parse(await cli("ledger", "verify", "--json"))).toMatchObject({ ok: true });
  const replay = ["policy", "replay", "--tenant", "tenant-a", "--decision", decision.decision_id, "--json"];
  expect(JSON.parse(await cli(...replay))).toMatchObject({ ok: true });
});

test("modules that start-up does not need are available when they are used", async () => {
  const service = await start({ ...everyApi, SVC_REFLECTION: "on" });
  const pages = [
    ...["/", "/explorer", "/openapi.json", "/openapi.yaml", ...furtherNames.map((name) => `/openapi-${name}.json`)],
    ...["explorer.css", "explorer.js", "swagger-ui.css", "swagger-ui-bundle.js"].map((name) => `/explorer/${name}`),
  ];
  for (const page of pages) {
    const answer = await fetch(service.url + page);
    expect([page, answer.status, (await answer.text()).length > 100]).toEqual([page, 200, true]);
  }
  // Full validation says what is wrong with it.
  const refused = await rest(`${service.url}${plan?.route}`, { token: token(), body: { operation: "protect" } });
  expect([refused.status, refused.body.error.reason]).toEqual([400, expect.any(String)]);
});

test("serves over TLS", async () => {
  const files = { SVC_TLS_CERT: join(fixtures, "server.crt.pem"), SVC_TLS_KEY: join(fixtures, "server.key.pem") };
  const { url } = await start(files);
  const headers = { authorization: `Bearer ${token()}`, "content-type": "application/json" };
  const options = { method: "POST", headers, rejectUnauthorized: false, agent: false };
  const answer = await tlsFetch(`${url}${plan?.route}`, options, JSON.stringify(plan?.body));
  expect(await answer.json()).toMatchObject({ decision: { decision_id: expect.any(String) } });
});

test("serves on PostgreSQL, after its own command prepared the database", { timeout: 120_000 }, async () => {
  const server = await forTest(sharedPostgres());
  settings.SVC_STORE = await server.createDatabase("platform");
  expect(await (await spawn(settings)).ended).toEqual({ code: 1, signal: null });
  await cli("migrate");
  const service = await start();
  await callAll(service);
  service.child.kill("SIGTERM");
  expect(await service.ended).toEqual({ code: 0, signal: null });
});

test("a failed start exits as the source does, with the reason", async () => {
  const ends = async (environment: Readonly<Record<string, string>>) => {
    const [built, source] = [await spawn(environment), await spawn(environment, "src/main.js")];
    expect([await built.ended, built.errors()]).toEqual([await source.ended, source.errors()]);
    expect([await built.ended, built.errors()]).toEqual([{ code: 1, signal: null }, expect.stringMatching(/./)]);
  };
  await ends({ SVC_LISTEN: "0.0.0.0:0", SVC_LISTN: "x" });
  await ends({ ...settings, SVC_POLICY_DIR: directory });
  await ends({ ...settings, SVC_STORE: "sqlite:/dev/null/none.db" });
});

test("SIGTERM during start-up stops it", async () => {
  const service = await spawn(settings);
  await expect.poll(() => existsSync(join(directory, "platform.db"))).toBe(true);
  service.child.kill("SIGTERM");
  expect(await service.ended).toEqual({ code: 0, signal: null });
});

test("contains the licence of every bundled package", () => {
  for (const { path, name, version } of productionPackages()) {
    if (/^node-(?:bin-)?(?:linux|darwin|win)/.test(name)) continue;
    const [bundled, whole] = [join(app, "licenses", `${name}@${version}`), join(app, path)];
    const folder = existsSync(whole) ? whole : bundled;
    expect(JSON.parse(readFileSync(join(folder, "package.json"), "utf8"))).toMatchObject({ name, version });
    expect([name, readdirSync(folder).some((file) => /^(?:licen[cs]e|copying|readme)/i.test(file))]).toEqual([
      name,
      true,
    ]);
  }
});

test("stack traces name the functions of the source, and its lines if Node maps them", () => {
  const chunks = join(app, "chunks");
  const name = readdirSync(chunks).find((each) => /^serve-(?!command).*\.js$/.test(each));
  expect(readFileSync(join(chunks, `${name}`), "utf8")).toContain("function stopWithParent(");
  const { sources } = JSON.parse(readFileSync(join(chunks, `${name}.map`), "utf8"));
  expect(sources).toContainEqual(expect.stringMatching(/src\/cli\/serve\.ts$/));
});
