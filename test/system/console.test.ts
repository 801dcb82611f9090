import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { recordSamples, sampleContent, sampleDigest } from "../../dev/sample-records.ts";
import { launchBrowser, openPage } from "../harness/browser.ts";
import {
  buildConsole,
  expectFitting,
  photograph,
  screens,
  searchingClients,
  signInWithToken,
  writeOperators,
} from "../harness/console.ts";
import { type Gateway, startGateway } from "../harness/gateway.ts";

const _root = join(import.meta.dirname, "../..");
const operatorToken = Buffer.alloc(32, 11).toString("base64url");
const markup = `"><img src=x onerror="alert(1)"><script>alert(2)</script>`;
const clients = searchingClients("tenant-a", "tenant-c");

let directory: string;
let gateway: Gateway;
let browser: Browser;
let axe: string;
/** Logs by tenant. */
let logs: Readonly<Record<string, { readonly name: string; readonly verifier_keys: readonly string[] }>>;
let decisionId: string;

beforeAll(async () => {
  axe = await buildConsole();
  directory = await mkdtemp(join(tmpdir(), "console-"));
  const credentials = await writeOperators(directory, { olga: operatorToken });
  [gateway, browser] = await Promise.all([
    startGateway({ issuer: { clients }, env: { SVC_OPS_CREDENTIALS: credentials } }),
    launchBrowser(),
  ]);
  for (const { clientId } of clients)
    await recordSamples({ url: gateway.url, token: await gateway.token({ clientId }) });
  const hostile = { url: gateway.url, token: await gateway.token({ clientId: "tenant-a" }), purpose: markup };
  await recordSamples({ ...hostile, resources: [markup] });
  const listed = await asked("/ledger");
  logs = Object.fromEntries(listed.logs.map((log: { tenant_id: string }) => [log.tenant_id, log]));
  const denied = { outcome: "deny", resource_id: "cust-8841", reason: "tenant/eu-residency" };
  decisionId = (await asked(`/ledger/${logs["tenant-a"]?.name}/search`, denied)).found[0].record_id;
}, 180_000);
afterAll(async () => {
  await browser?.close();
  await gateway?.stop();
  await rm(directory, { recursive: true, force: true });
});

// biome-ignore lint/suspicious/noExplicitAny: tests read members of many shapes, and fail where they are not there.
async function asked(path: string, body?: object): Promise<any> {
  const headers = { authorization: `Bearer ${operatorToken}`, "content-type": "application/json" };
  const request = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
  return (await fetch(gateway.opsUrl + path, { headers, ...request })).json();
}

const signIn = (page: Page, path = "/console", token = operatorToken) =>
  signInWithToken(page, gateway.opsUrl + path, token);

const pathsOf = (log = logs["tenant-a"]?.name) => ({
  overview: `/console/logs/${log}`,
  ledger: `/console/logs/${log}/ledger`,
  record: `/console/logs/${log}/records/${decisionId}`,
  artifact: `/console/logs/${log}/artifact#digest=${encodeURIComponent(sampleDigest("cust-8841"))}`,
  system: "/console/system",
  verify: "/console/verify",
});

/** What tells that a page has loaded all that it shows. */
const ready: Readonly<Record<string, string>> = {
  overview: ".tile",
  ledger: ".rows tbody tr",
  record: ".layer",
  artifact: ".timeline tbody tr",
  system: ".proof dl",
  verify: "textarea",
};

async function openKind(page: Page, kind: string): Promise<void> {
  await signIn(page, pathsOf()[kind as "ledger"] === "/console/verify" ? "/console" : pathsOf()[kind as "ledger"]);
  if (kind === "verify") await page.click("nav >> text=Verify");
  await page.waitForSelector(ready[kind] as string);
}

test("signs in, searches, opens a decision, and verifies its receipt in the browser", async () => {
  const { page, requests, complaints } = await openPage(browser);
  await signIn(page);
  await page.waitForSelector("h1 >> text=tenant-a");
  await page.click("nav >> text=Ledger");
  await page.fill("input[type=search]", "outcome:deny resource:cust-8841 reason:tenant/eu-residency");
  await page.keyboard.press("Enter");
  await expect.poll(() => page.locator(".rows tbody tr").count()).toBe(1);
  expect(await page.locator("[aria-label=Results] .note").innerText()).toMatch(/^1 of [\d,]+ records match\.$/);
  expect(await page.locator(".rows tbody tr").innerText()).toMatch(/payroll-service[\s\S]*denied[\s\S]*eu-residency/);
  expect(await page.locator(".command code").first().innerText()).toContain("--decided-by tenant/eu-residency");
  await page.click(".rows tbody a");
  await page.waitForSelector(".proof.done >> text=Verified in this browser");
  expect(await page.locator("h1").innerText()).toContain("DENY");
  await page.waitForSelector(".layer >> text=eu-residency");
  expect(await page.locator("[aria-label=Explanation]").innerText()).toContain("processing_region");
  // No value that was searched for is in an address that a server saw.
  expect(requests.filter((url) => new URL(url).origin !== gateway.opsUrl || url.includes("cust-8841"))).toEqual([]);
  expect(complaints).toEqual([]);
});

test("the overview leads from a principal to its denials", async () => {
  const { page } = await openPage(browser);
  await signIn(page, pathsOf().overview);
  await page.click('section:has(> h2:text-is("Denied to")) a');
  await page.waitForSelector(".rows tbody tr");
  expect(await page.inputValue("input[type=search]")).toMatch(/^principal:\S+ outcome:deny last:\d+d$/);
});

test("a changed receipt is refused, and nothing of its record is shown", async () => {
  const { page } = await openPage(browser);
  await page.route("**/ledger/*/record/*", async (route) => {
    const answer = await (await route.fetch()).json();
    const record = Buffer.from(answer.receipt.record, "base64").toString().replace('"allow":false', '"allow":true');
    await route.fulfill({ json: { ...answer, receipt: { ...answer.receipt, record: btoa(record) } } });
  });
  await signIn(page, pathsOf().record);
  await page.waitForSelector(".proof.failed");
  expect(await page.locator("main").innerText()).toContain("record is not the one that its leaf commits to");
  expect(await page.locator("main").innerText()).not.toMatch(/ALLOW|DENY|cust-8841/);
});

test("a key of one's own counts instead of the listener's", async () => {
  const { page } = await openPage(browser);
  await signIn(page, pathsOf().record);
  await page.waitForSelector(".proof.done");
  const [own, other] = [logs["tenant-a"]?.verifier_keys[0] ?? "", logs["tenant-c"]?.verifier_keys[0] ?? ""];
  await page.fill("input[name=key]", other);
  await page.keyboard.press("Enter");
  await page.waitForSelector(".proof.failed");
  await page.fill("input[name=key]", own);
  await page.keyboard.press("Enter");
  await page.waitForSelector(".proof.done >> text=the one that you gave");
});

test("markup in what callers wrote stays text", async () => {
  const { page, complaints } = await openPage(browser);
  const dialogs: string[] = [];
  page.on("dialog", (dialog) => void dialogs.push(dialog.message()));
  await signIn(page, `${pathsOf().ledger}#${new URLSearchParams({ q: `resource:${JSON.stringify(markup)}` })}`);
  await expect.poll(() => page.locator(".rows tbody tr").count()).toBeGreaterThan(3);
  expect(await page.locator(".rows").innerText()).toContain(markup);
  await page.click(".rows tbody a >> nth=0");
  await page.waitForSelector(".proof.done");
  expect(await page.locator("main").innerText()).toContain(markup);
  expect(await page.locator("main img, main script").count()).toBe(0);
  expect([dialogs, complaints]).toEqual([[], []]);
});

test("a tenant's session sees nothing of another tenant, by permalink neither", async () => {
  const { page, requests } = await openPage(browser);
  const token = await gateway.token({ clientId: "tenant-c" });
  for (const path of Object.values(pathsOf()).slice(0, 4)) {
    await signIn(page, path, token);
    await page.waitForSelector("h1 >> text=There is no such log");
    expect(await page.locator("body").innerText()).not.toMatch(/tenant-a|cust-8841/);
  }
  const { name } = logs["tenant-a"] ?? {};
  expect(requests.filter((url) => url.includes(`/ledger/${name}`))).toEqual([]);
  // Not by the interface either, whatever a page would ask.
  for (const path of ["search", `record/${decisionId}`, `explanation/${decisionId}`]) {
    const answer = await fetch(`${gateway.opsUrl}/ledger/${name}/${path}`, {
      headers: { authorization: `Bearer ${token}` },
    });
    expect([path, answer.status]).toEqual([path, 404]);
  }
  await signIn(page, pathsOf(logs["tenant-c"]?.name).ledger, token);
  await page.waitForSelector(".rows tbody tr");
});

test("the credentials are kept nowhere, and wrong ones are refused", async () => {
  const { page } = await openPage(browser);
  await page.goto(`${gateway.opsUrl}/console`);
  await page.fill("input[name=token]", "wrong");
  await page.click("button[type=submit]");
  await page.waitForSelector("[role=alert]");
  await signIn(page);
  expect(await page.evaluate("({ ...localStorage, ...sessionStorage })")).toEqual({});
  expect(await page.context().cookies()).toEqual([]);
  await page.reload();
  await page.waitForSelector("input[name=token]");
  await signIn(page);
  await page.click("text=Sign out");
  await page.waitForSelector("text=You are signed out.");
});

test("credentials that are no longer accepted end the session", async () => {
  const { page } = await openPage(browser);
  await signIn(page);
  await page.waitForSelector(".tile");
  const refused = { status: 401, json: { error: { message: "the credentials are not an operator's" } } };
  await page.route("**/ledger/*/search", (route) => route.fulfill(refused));
  await page.click("nav >> text=Ledger");
  await page.waitForSelector("text=The credentials expired or were revoked");
});

test("a dropped file is found by its digest, and leads to the artifact's history", async () => {
  const { page, complaints } = await openPage(browser);
  await signIn(page, `${pathsOf().ledger}#q=last%3A7d`);
  const buffer = Buffer.from(sampleContent("cust-8842"));
  await page.setInputFiles("input[type=file]", { name: "<b>.sealed", mimeType: "application/octet-stream", buffer });
  await page.waitForSelector(`text=<b>.sealed is ${sampleDigest("cust-8842")}`);
  expect(await page.inputValue("input[type=search]")).toBe(`digest:"${sampleDigest("cust-8842")}" last:7d`);
  await page.click(".rows a:has(code) >> nth=0");
  await page.waitForSelector(".timeline tbody tr");
  const text = await page.locator("main").innerText();
  expect(text).toContain(sampleDigest("cust-8842"));
  expect(text).toMatch(/Labels ever\s+confidential/);
  expect(text).toMatch(/denied/);
  expect(complaints).toEqual([]);
});

test("verifies what is dropped with the network cut, and refuses it once it was changed", async () => {
  const { page, complaints } = await openPage(browser);
  const { name, verifier_keys } = logs["tenant-a"] ?? { name: "", verifier_keys: [] };
  const { receipt } = await asked(`/ledger/${name}/record/${decisionId}`);
  await page.goto(`${gateway.opsUrl}/console/verify`);
  await page.waitForSelector("textarea");
  await page.context().setOffline(true);
  await page.fill("textarea >> nth=0", verifier_keys[0] ?? "");
  const drop = (value: object) => {
    const buffer = Buffer.from(JSON.stringify(value));
    return page.setInputFiles("input[type=file]", { name: "answer.json", mimeType: "application/json", buffer });
  };
  await drop({ decision: { receipt } });
  await page.waitForSelector(".proof.done >> text=answer.json verifies");
  expect(await page.locator(".proof pre").innerText()).toContain("cust-8841");
  await drop({ decision: { receipt: { ...receipt, leaf_index: receipt.leaf_index + 1 } } });
  await page.waitForSelector(".proof.failed >> text=leaf_index is not what its proof shows");
  expect(complaints).toEqual([]);
});

describe.each(screens)("%s", (screen, options) => {
  test.each(Object.keys(ready))("%s fits, and axe finds nothing serious", async (kind) => {
    const { page, complaints } = await openPage(browser, options);
    await openKind(page, kind);
    await photograph(page, `${kind}-${screen.replace(", ", "-")}`);
    await expectFitting(page, axe);
    expect(complaints).toEqual([]);
  });
});
