import { cp, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { recordSamples } from "../../dev/sample-records.ts";
import { readFirstPolicy } from "../../src/app/first-policy.ts";
import { consoleForFile, expectFitting, screens, watchDialogs } from "../harness/console-pages.ts";
import { folderForFile } from "../harness/folder.ts";

const root = join(import.meta.dirname, "../..");
const markup = `<img src=x onerror=alert(1)>`;
const hostileFile = `${markup}.cedar`;
const hostile = `// ${markup}<script>alert(2)</script>
@id("unused")
@description("${markup}")
permit (principal, action, resource)
when { context.claimed has purpose && context.claimed.purpose == "${markup}" };
`;

const folder = folderForFile("console-policies");
const policies = join(folder, "policies");
await cp(join(root, "policies"), policies, { recursive: true });
const { gateway, openPage, asked, signIn, logOf } = await consoleForFile(folder, ["tenant-a", "tenant-b"], {
  env: { SVC_POLICY_DIR: policies },
  policy: readFirstPolicy,
});
const token = await gateway.token({ clientId: "tenant-a" });
await recordSamples({ url: gateway.url, token });
const { name: log } = await logOf("tenant-a");
const firstRevision: string = (await asked(`/ledger/${log}/policies`)).current_revision;
await writeFile(join(policies, "default", hostileFile), hostile);
await gateway.app.reload();
await recordSamples({ url: gateway.url, token });

const policiesPath = `/console/logs/${log}/policies`;
const playgroundPath = `/console/logs/${log}/playground`;

async function tryIt(page: Page): Promise<void> {
  await page.click(".run button[type=submit]");
  await page.waitForSelector(".tried, .proof.failed", { timeout: 40_000 });
}

test("shows how often each policy decided, which never did, and links to the decisions", async () => {
  const { page, complaints } = await openPage();
  await signIn(page, policiesPath);
  await page.waitForSelector("text=never decided in this period");
  const row = page.locator("tr", { hasText: "tenant/eu-residency" });
  const decisions = Number(await row.locator(".number").innerText());
  expect(decisions).toBeGreaterThan(0);
  expect(await page.locator("tr", { hasText: "tenant/unused" }).innerText()).toContain("never");
  expect(await page.locator(".command code").first().innerText()).toContain("--last 30d --count-by reason");
  await page.selectOption("select >> nth=1", "7d");
  await expect.poll(() => new URL(page.url()).hash).toBe("#last=7d");
  await row.locator("a").click();
  await expect.poll(() => page.locator(".rows tbody tr").count()).toBe(decisions);
  expect(complaints).toEqual([]);
});

test("shows the revisions with their times, and the text of an earlier one, by permalink", async () => {
  const { page, complaints } = await openPage();
  await signIn(page, `${policiesPath}#revision=${firstRevision}`);
  await page.waitForSelector("[aria-label=Text] >> text=In force there are also");
  const rows = page.locator("table.rows >> nth=1").locator("tbody tr");
  await expect.poll(() => rows.count()).toBe(2);
  expect(await rows.first().innerText()).toContain("in force");
  expect(await rows.first().innerText()).toMatch(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/);
  await page.click("summary >> text=default/operations.cedar");
  const text = await readFile(join(policies, "default/operations.cedar"), "utf8");
  expect(await page.locator("details[open] pre").innerText()).toBe(text);
  expect(complaints).toEqual([]);
});

test("a draft is tried by keyboard: answers, tests, differences, and recorded decisions", async () => {
  const { page, complaints } = await openPage();
  await signIn(page, `${playgroundPath}#file=default%2Foperations.cedar&since=1d`);
  await page.waitForSelector("textarea");
  await page.focus("textarea >> nth=0");
  await page.keyboard.press("Control+End");
  await page.keyboard.insertText('\n@id("closed")\nforbid (principal, action, resource);\n');
  await page.waitForSelector("option >> text=default/operations.cedar · changed", { state: "attached" });
  await page.focus(".run button");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".tried", { timeout: 40_000 });
  const shown = await page.locator(".tried").innerText();
  expect(shown).toMatch(/Tests[\s\S]*failed[\s\S]*Questions[\s\S]*DENY[\s\S]*tenant\/closed/);
  expect(shown).toMatch(/default\/closed is added[\s\S]*decided differently[\s\S]*DENY tenant\/closed/);
  expect(shown).toMatch(/were asked again[\s\S]*The newest of them/);
  expect(await page.locator(".command code").last().innerText()).toMatch(/policy diff .*--since 1d --tenant tenant-a/);
  // It is kept nowhere: neither in the directory, nor after a reload of the page.
  expect(await readFile(join(policies, "default/operations.cedar"), "utf8")).not.toContain("closed");
  expect(await page.evaluate("({ ...localStorage, ...sessionStorage })")).toEqual({});
  expect(complaints).toEqual([]);
}, 90_000);

test("a refused draft shows the place, and a file can be added, removed and restored", async () => {
  const { page, complaints } = await openPage();
  await signIn(page, playgroundPath);
  await page.fill("input[name=name]", "default/new.cedar");
  await page.click("text=Add");
  await page.fill("textarea >> nth=0", 'permit (principal, action == Action::"fly", resource);');
  await tryIt(page);
  expect(await page.locator(".proof.failed").innerText()).toContain("default/new.cedar:1");
  await page.click("text=Discard");
  await page.selectOption("select[size]", "tests/default.yaml");
  await page.click("text=Remove");
  await page.waitForSelector("text=tests/default.yaml was removed");
  await page.click("text=Restore");
  await tryIt(page);
  expect(await page.locator("[aria-label=Differences]").innerText()).toContain("The files say the same");
  expect(complaints).toEqual([]);
}, 90_000);

test("markup in policies, their file names, and a draft stays text", async () => {
  const { page, complaints } = await openPage();
  const dialogs = watchDialogs(page);
  await signIn(page, policiesPath);
  await page.waitForSelector("[aria-label=Text] summary");
  await page.click(`summary:has-text("${hostileFile}")`);
  const text = await page.locator("main").innerText();
  for (const part of [hostileFile, "<script>alert(2)</script>"]) expect(text).toContain(part);
  await page.click("main >> text=Playground");
  await page.waitForSelector("textarea");
  await page.selectOption("select[size]", `default/${hostileFile}`);
  await page.fill(
    "textarea >> nth=0",
    `@id("${markup}")\npermit (principal, action == Action::"${markup}", resource);`,
  );
  await tryIt(page);
  expect(await page.locator(".proof.failed").innerText()).toContain(hostileFile);
  await page.fill("textarea >> nth=0", hostile.replace("unused", "x"));
  await page.selectOption("select[size]", "tests/default.yaml");
  const tests = `- { name: "${markup}", tenant: tenant-a, action: access, claimed: { workload: { application: a }, resource: { kind: b } }, expect: { allow: true, reasons: ["${markup}"] } }`;
  await page.fill("textarea >> nth=0", tests);
  await tryIt(page);
  await page.waitForSelector(".tried");
  expect(await page.locator("[aria-label=Tests]").innerText()).toContain(markup);
  expect(await page.locator("main img, main script").count()).toBe(0);
  expect(dialogs.filter((message) => message !== "")).toEqual([]);
  expect(complaints).toEqual([]);
}, 90_000);

test("a tenant sees the policies of its own set, without the platform's and without the playground", async () => {
  const { page } = await openPage();
  await signIn(page, policiesPath, await gateway.token({ clientId: "tenant-a" }));
  await page.waitForSelector("text=The platform's are for operators");
  expect(await page.locator("main").innerText()).not.toContain("platform/");
  const [another, stranger] = [await openPage(), await gateway.token({ clientId: "tenant-b" })];
  await signIn(another.page, playgroundPath, stranger);
  await another.page.waitForSelector("h1 >> text=There is no such log");
  await another.page.goto(`${gateway.opsUrl}/console`);
});

test("the first page loads no playground, and stays below 200 KiB", async () => {
  const folder = join(root, "console/dist/assets");
  const names = await readdir(folder);
  const { page, requests } = await openPage();
  await signIn(page, policiesPath);
  await page.waitForSelector("table");
  const loaded = names.filter((name) => requests.some((url) => url.endsWith(name)));
  expect(loaded.some((name) => name.startsWith("playground"))).toBe(false);
  const sizes = await Promise.all(loaded.map(async (name) => (await readFile(join(folder, name))).length));
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(200 * 1024);
});

describe.each(screens)("%s", (_screen, options) => {
  test.each(["policies", "playground"])(
    "%s fits, and axe finds no serious violation",
    async (kind) => {
      const { page, complaints } = await openPage(options);
      await signIn(page, kind === "policies" ? policiesPath : `${playgroundPath}#since=1d`);
      if (kind === "policies") {
        await page.waitForSelector("[aria-label=Text] summary");
        await page.click("[aria-label=Text] summary >> nth=0");
        await page.waitForSelector("table.rows >> nth=1");
      } else {
        await page.waitForSelector("textarea");
        await page.fill(
          "textarea >> nth=0",
          '@id("closed")\nforbid (principal, action == Action::"access", resource);\n',
        );
        await tryIt(page);
      }
      await expectFitting(page);
      expect(complaints).toEqual([]);
    },
    90_000,
  );
});
