import { expect, test } from "vitest";
import { recordSamples, sampleContent, sampleDigest } from "../../dev/sample-records.ts";
import { consoleForFile, watchDialogs } from "../harness/console-pages.ts";
import { folderForFile } from "../harness/folder.ts";

const markup = `"><img src=x onerror="alert(1)"><script>alert(2)</script>`;
const tenants = ["tenant-a", "tenant-c"];
const { gateway, openPage, asked, signIn, logOf } = await consoleForFile(folderForFile("console"), tenants);
for (const clientId of tenants) await recordSamples({ url: gateway.url, token: await gateway.token({ clientId }) });
const hostile = { url: gateway.url, token: await gateway.token({ clientId: "tenant-a" }), purpose: markup };
await recordSamples({ ...hostile, resources: [markup] });
const [log, otherLog] = [await logOf("tenant-a"), await logOf("tenant-c")];
const denied = { outcome: "deny", resource_id: "cust-8841", reason: "tenant/eu-residency" };
const decisionId: string = (await asked(`/ledger/${log.name}/search`, denied)).found[0].record_id;

const pathsOf = ({ name } = log) => ({
  overview: `/console/logs/${name}`,
  ledger: `/console/logs/${name}/ledger`,
  record: `/console/logs/${name}/records/${decisionId}`,
  artifact: `/console/logs/${name}/artifact#digest=${encodeURIComponent(sampleDigest("cust-8841"))}`,
});

test("signs in, searches, opens a decision, and verifies its receipt in the browser", async () => {
  const { page, requests, complaints } = await openPage();
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

test("the overview links from a principal to its denials", async () => {
  const { page } = await openPage();
  await signIn(page, pathsOf().overview);
  await page.click('section:has(> h2:text-is("Denied to")) a');
  await page.waitForSelector(".rows tbody tr");
  expect(await page.inputValue("input[type=search]")).toMatch(/^principal:\S+ outcome:deny last:\d+d$/);
});

test("a changed receipt is refused, and nothing of its record is shown", async () => {
  const { page } = await openPage();
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

test("a key that the user enters replaces the listener's", async () => {
  const { page } = await openPage();
  await signIn(page, pathsOf().record);
  await page.waitForSelector(".proof.done");
  const [own = "", other = ""] = [log, otherLog].map(({ verifier_keys: [key] }) => key);
  await page.fill("input[name=key]", other);
  await page.keyboard.press("Enter");
  await page.waitForSelector(".proof.failed");
  await page.fill("input[name=key]", own);
  await page.keyboard.press("Enter");
  await page.waitForSelector(".proof.done >> text=the one that you gave");
});

test("markup in callers' text stays text", async () => {
  const { page, complaints } = await openPage();
  const dialogs = watchDialogs(page);
  await signIn(page, `${pathsOf().ledger}#${new URLSearchParams({ q: `resource:${JSON.stringify(markup)}` })}`);
  await expect.poll(() => page.locator(".rows tbody tr").count()).toBeGreaterThan(3);
  expect(await page.locator(".rows").innerText()).toContain(markup);
  await page.click(".rows tbody a >> nth=0");
  await page.waitForSelector(".proof.done");
  expect(await page.locator("main").innerText()).toContain(markup);
  expect(await page.locator("main img, main script").count()).toBe(0);
  expect([dialogs, complaints]).toEqual([[], []]);
});

test("a tenant's session sees nothing of another tenant, including by permalink", async () => {
  const { page, requests } = await openPage();
  const token = await gateway.token({ clientId: "tenant-c" });
  for (const path of Object.values(pathsOf())) {
    await signIn(page, path, token);
    await page.waitForSelector("h1 >> text=There is no such log");
    expect(await page.locator("body").innerText()).not.toMatch(/tenant-a|cust-8841/);
  }
  expect(requests.filter((url) => url.includes(`/ledger/${log.name}`))).toEqual([]);
  await signIn(page, pathsOf(otherLog).ledger, token);
  await page.waitForSelector(".rows tbody tr");
});

test("credentials are never stored, and wrong ones are refused", async () => {
  const { page } = await openPage();
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

test("revoked credentials end the session", async () => {
  const { page } = await openPage();
  await signIn(page);
  // What this page loads last: its answer would end the session before the click.
  await page.waitForSelector(".tile >> text=Break-glass");
  const refused = { status: 401, json: { error: { message: "the credentials are not an operator's" } } };
  await page.route("**/ledger/*/search", (route) => route.fulfill(refused));
  await page.click("nav >> text=Ledger");
  await page.waitForSelector("text=The credentials expired or were revoked");
});

test("a dropped file is found by its digest, and leads to the artifact's history", async () => {
  const { page, complaints } = await openPage();
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

test("a dropped proof verifies with the network cut, and is refused if it was changed", async () => {
  const { page, complaints } = await openPage();
  const { receipt } = await asked(`/ledger/${log.name}/record/${decisionId}`);
  await page.goto(`${gateway.opsUrl}/console/verify`);
  await page.waitForSelector("textarea");
  await page.context().setOffline(true);
  await page.fill("textarea >> nth=0", log.verifier_keys[0] ?? "");
  const drop = (value: object) => {
    const buffer = Buffer.from(JSON.stringify(value));
    return page.setInputFiles("input[type=file]", { name: "answer.json", mimeType: "application/json", buffer });
  };
  await drop({ decision: { receipt } });
  await page.waitForSelector(".proof.done >> text=answer.json verifies");
  expect(await page.locator(".proof pre").innerText()).toContain("cust-8841");
  await page.fill("textarea >> nth=0", "another key");
  await page.waitForSelector(".proof", { state: "detached" });
  await page.fill("textarea >> nth=0", log.verifier_keys[0] ?? "");
  await drop({ decision: { receipt: { ...receipt, leaf_index: receipt.leaf_index + 1 } } });
  await page.waitForSelector(".proof.failed >> text=leaf_index is not what its proof shows");
  expect(complaints).toEqual([]);
});
