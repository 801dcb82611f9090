import { createHash } from "node:crypto";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { recordSamples } from "../../dev/sample-records.ts";
import { runCommandLine } from "../../src/cli/run.ts";
import { launchBrowser, openPage } from "../harness/browser.ts";
import { buildConsole, expectFitting, searchingClients, signInWithToken, writeOperators } from "../harness/console.ts";
import { type Gateway, startGateway } from "../harness/gateway.ts";
import { writeManyRecords } from "../harness/many-records.ts";
import { captureTerminal } from "../unit/cli/terminal.ts";

import { memoryLog, moment } from "../unit/ledger/pack/memory-log.ts";

const _root = join(import.meta.dirname, "../..");
const operatorToken = Buffer.alloc(32, 12).toString("base64url");
const markup = `"><img src=x onerror="alert(1)"><script>alert(2)</script>`;
const records = 10_000;
const erasedRecords = 12;
const clients = searchingClients("tenant-a", "tenant-c");

let directory: string;
let gateway: Gateway;
let browser: Browser;
let axe: string;
let settings: string;
/** Names of logs by tenant. */
let logs: Readonly<Record<string, string>>;
let decisionId: string;

/** Runs a command beside the service. Fails with its output if it fails. */
async function run(...words: readonly string[]): Promise<string> {
  const { terminal, written } = captureTerminal();
  await runCommandLine([...words, "--config", settings], terminal);
  if (written.code !== 0) throw new Error(written.err);
  return written.out;
}

beforeAll(async () => {
  axe = await buildConsole();
  directory = await mkdtemp(join(tmpdir(), "console-reports-"));
  const dataDir = join(directory, "data");
  await mkdir(dataDir);
  settings = join(directory, "settings.yaml");
  const store = `sqlite:${join(dataDir, "platform.db")}`;
  await writeFile(settings, JSON.stringify({ SVC_STORE: store, SVC_LEDGER_KEY: join(dataDir, "ledger.key") }));
  const many = { directory: dataDir, tenantId: "tenant-a", records, markup, nowMs: Date.now() };
  const denials = await writeManyRecords(many);
  decisionId = denials.at(-1) ?? "";
  const erased = denials.slice(0, erasedRecords).flatMap((id) => ["--record", id]);
  const statement = ["--reason", `request of ${markup}`, "--operator", "olga", "--yes"];
  await run("ledger", "erase", "--tenant", "tenant-a", ...erased, ...statement);
  const credentials = await writeOperators(directory, { olga: operatorToken });
  gateway = await startGateway({ dataDir, issuer: { clients }, env: { SVC_OPS_CREDENTIALS: credentials } });
  browser = await launchBrowser();
  await recordSamples({ url: gateway.url, token: await gateway.token({ clientId: "tenant-c" }) });
  const { logs: listed } = await json(get("/ledger"));
  logs = Object.fromEntries(listed.map((log: { tenant_id: string; name: string }) => [log.tenant_id, log.name]));
}, 300_000);
afterAll(async () => {
  await browser?.close();
  await gateway?.stop();
  await rm(directory, { recursive: true, force: true });
});

interface Listed {
  readonly tenant_id: string;
  readonly verifier_keys: readonly string[];
}

function get(path: string, token = operatorToken): Promise<Response> {
  return fetch(gateway.opsUrl + path, { headers: { authorization: `Bearer ${token}` } });
}

// biome-ignore lint/suspicious/noExplicitAny: tests read members of many shapes, and fail where they are not there.
async function json(answer: Promise<Response>): Promise<any> {
  return (await answer).json();
}

const signIn = (page: Page, path: string, token = operatorToken) => signInWithToken(page, gateway.opsUrl + path, token);

const pageOf = (path: string, log = logs["tenant-a"]) => `/console/logs/${log}${path}`;
const reportsOf = (template: string) => pageOf(`/reports#template=${template}&last=30d`);
const principal = `/principal#id=${encodeURIComponent(markup.slice(0, 40))}`;

/** Address of each page, and what is there once it has loaded all that it shows. */
const pages: Readonly<Record<string, () => readonly [path: string, ready: string]>> = {
  overview: () => [pageOf(""), "h2 >> text=Without evidence, by principal"],
  ledger: () => [pageOf("/ledger"), ".rows tbody tr"],
  erasures: () => [pageOf("/ledger#q=from%3A2020-01-01"), ".rows tbody tr"],
  record: () => [pageOf(`/records/${decisionId}`), ".proof.done"],
  principal: () => [pageOf("/principal#id=reports"), "h2 >> text=Newest records"],
  hostile: () => [pageOf(principal), "h2 >> text=Newest records"],
  "report-access": () => [reportsOf("access"), "iframe"],
  "report-denials": () => [reportsOf("denials"), "iframe"],
  "report-unevidenced": () => [reportsOf("unevidenced"), "iframe"],
  "report-break-glass": () => [reportsOf("break-glass"), "iframe"],
  "report-erasures": () => [reportsOf("erasures"), "iframe"],
  system: () => ["/console/system", ".proof dl"],
};

async function openKind(page: Page, kind: string): Promise<void> {
  const [path, ready] = pages[kind]?.() ?? ["", ""];
  await signIn(page, path);
  await page.waitForSelector(ready);
  if (ready === "iframe") await page.frameLocator("iframe").locator("h1").waitFor();
}

const folder = process.env.SVC_TEST_SCREENSHOTS;
// Commands that run here would take it for a setting.
vi.stubEnv("SVC_TEST_SCREENSHOTS", undefined);
const photograph = async (page: Page, name: string, fullPage = true) => {
  if (folder !== undefined) await page.screenshot({ path: `${folder}/${name}.png`, fullPage });
};

const screens: [string, BrowserContextOptions][] = [
  ["narrow", { viewport: { width: 400, height: 860 } }],
  ["wide", { viewport: { width: 1_600, height: 1_000 } }],
];

describe.each(screens)("%s, light and dark", (screen, options) => {
  /** Looks at the page in both themes. */
  const look = async (page: Page, name: string, isWhole: boolean) => {
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      await photograph(page, `${name}-${screen}-${colorScheme}`, isWhole);
      await expectFitting(page, axe, { iframes: false });
    }
    expect(await page.locator("main img, main script").count()).toBe(0);
  };

  test.each(Object.keys(pages))("%s fits, keeps markup as text, and axe finds nothing serious", async (kind) => {
    const { page, complaints } = await openPage(browser, options);
    const dialogs: string[] = [];
    page.on("dialog", (dialog) => void dialogs.push(dialog.message()));
    await openKind(page, kind);
    await look(page, kind, true);
    expect([dialogs, complaints]).toEqual([[], []]);
    await page.context().close();
  });

  test("a report as a file fits, and axe finds nothing serious", async () => {
    const { page, complaints } = await openPage(browser, options);
    const file = join(directory, `report-${screen}.html`);
    await run("ledger", "report", "--tenant", "tenant-a", "--template", "break-glass", "--last", "7d", "--out", file);
    await page.goto(pathToFileURL(file).href);
    await look(page, "file", true);
    // The width of A4 without its margins, at 96 pixels an inch.
    await page.setViewportSize({ width: 688, height: 1_000 });
    await page.emulateMedia({ media: "print", colorScheme: "dark" });
    await photograph(page, `file-${screen}-print`);
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(688);
    expect(complaints).toEqual([]);
    await page.context().close();
  });
});

test("the report that is shown is the one that is saved; commands write it too, and its proof", async () => {
  const { page, requests, complaints } = await openPage(browser);
  const [from, to] = ["2020-01-01T00:00:00Z", new Date(Date.now() + 86_400_000).toISOString().slice(0, 10)];
  await signIn(page, pageOf(`/reports#template=erasures&from=${from}&to=${to}T00:00:00Z`));
  const frame = page.frameLocator("iframe");
  await frame.locator("h1 >> text=Erasures of tenant-a").waitFor();
  expect(await frame.locator(".rows tbody tr").count()).toBe(erasedRecords);
  expect(await frame.locator(".rows").innerText()).toContain(`request of ${markup}`);
  // Its own style, and neither script nor image.
  expect(await frame.locator("main").evaluate("getComputedStyle(document.body).margin")).toBe("0px");
  const [proof = "", command = ""] = await page.locator(".command code").allInnerTexts();
  const out = join(directory, "erasures.html");
  await run(...command.replace("report.html", out).split(" ").slice(1));
  const pack = join(directory, "erasures.pack");
  await run(...proof.replace("period.pack", pack).split(" ").slice(1));
  expect((await readFile(pack)).length).toBeGreaterThan(0);
  const saved = async (link: string) => {
    const [download] = await Promise.all([page.waitForEvent("download"), page.click(link)]);
    return readFile(await download.path(), "utf8");
  };
  expect(await saved("text=Save as HTML")).toBe(await readFile(out, "utf8"));
  await page.click("text=Make a CSV");
  expect(await saved("text=Save as CSV")).toBe(await readFile(out.replace("html", "csv"), "utf8"));
  expect(requests.filter((url) => !url.startsWith("blob:") && new URL(url).origin !== gateway.opsUrl)).toEqual([]);
  expect(complaints).toEqual([]);
});

test("a principal's page counts what it did, and leads to its denials", async () => {
  const { page } = await openPage(browser);
  await signIn(page, pageOf("/ledger#q=principal%3Areports"));
  await page.click(".rows tbody tr >> nth=0 >> a >> text=reports");
  await page.waitForSelector("h1 >> text=reports");
  await page.waitForSelector("h2 >> text=Newest records");
  const search = async (criteria: object) => {
    const answer = fetch(`${gateway.opsUrl}/ledger/${logs["tenant-a"]}/search`, {
      method: "POST",
      headers: { authorization: `Bearer ${operatorToken}`, "content-type": "application/json" },
      body: JSON.stringify({ principal: "reports", last: "30d", ...criteria }),
    });
    return (await json(answer)).counted;
  };
  const { records: denied } = await search({ outcome: "deny", count_by: "day" });
  expect(denied).toBeGreaterThan(50);
  expect(await page.locator(".facts").innerText()).toMatch(new RegExp(`Denied\\s+${denied} in 30 days`));
  await page.click(`text=${denied} in 30 days`);
  await expect.poll(() => page.locator("input[type=search]").inputValue()).toContain("outcome:deny");
});

test("the ledger page saves all that matches as CSV, as the command prints it", async () => {
  const { page } = await openPage(browser);
  await signIn(page, pageOf("/ledger#q=alert%3Abreak-glass"));
  await page.click("text=Make a CSV of all that match");
  const link = page.locator("a[download]");
  await link.waitFor();
  const [download] = await Promise.all([page.waitForEvent("download"), link.click()]);
  const asked = ["--tenant", "tenant-a", "--alert", "break-glass", "--newest", "--csv", "--limit", "1000"];
  expect(await readFile(await download.path(), "utf8")).toBe(await run("ledger", "search", ...asked));
});

describe("a pack, with the network cut", () => {
  /** The lines with the end that fits them. */
  const sealed = (lines: readonly string[]) => {
    const body = lines.map((line) => `${line}\n`).join("");
    const entries = lines.filter((line) => line.includes('"type":"entry"')).length;
    const sha256 = createHash("sha256").update(body).digest("hex");
    return `${body}${JSON.stringify({ entries, sha256, type: "end" })}\n`;
  };
  const isEntry = (line: string) => line.includes('"record":') && line.includes('"type":"entry"');
  /** Position of an entry amid the pack. */
  const amid = (lines: readonly string[]) => lines.findIndex((line, at) => at > lines.length / 2 && isEntry(line));

  let lines: readonly string[];
  let keys: Readonly<Record<string, string>>;
  beforeAll(async () => {
    const out = join(directory, "period.pack");
    const [from, to] = [3, 2].map((days) => new Date(Date.now() - days * 86_400_000).toISOString());
    await run("ledger", "pack", "--tenant", "tenant-a", "--from", from ?? "", "--to", to ?? "", "--out", out);
    lines = (await readFile(out, "utf8")).trimEnd().split("\n").slice(0, -1);
    const listed = await json(get("/ledger"));
    keys = Object.fromEntries(listed.logs.map(({ tenant_id: id, verifier_keys: [key] }: Listed) => [id, key]));
  });

  async function drop(text: string, key = keys["tenant-a"] ?? ""): Promise<Page> {
    const { page } = await openPage(browser);
    await page.goto(`${gateway.opsUrl}/console/verify`);
    await page.waitForSelector("textarea");
    await page.context().setOffline(true);
    await page.fill("textarea >> nth=0", key);
    const file = { name: "period.pack", mimeType: "text/plain", buffer: Buffer.from(text) };
    await page.setInputFiles("input[type=file]", file);
    return page;
  }

  test("verifies, and shows its records", async () => {
    const page = await drop(sealed(lines));
    await page.waitForSelector(".proof.done >> text=period.pack verifies");
    const shown = lines.filter(isEntry).length;
    const text = await page.locator(".proof").innerText();
    expect(text).toMatch(new RegExp(`Records\\s+${shown}\\b`));
    expect(text).toContain("Nothing that the log holds of the period is left out.");
    await expectFitting(page, axe, { iframes: false });
  });

  test("refuses two records of one id with one erasure", async () => {
    const log = memoryLog();
    log.forgeTwins();
    const page = await drop(await log.pack({ to: moment(100) }), log.vkey());
    await page.waitForSelector("text=the id of another erased record");
  });

  test("names a tenant as its maker's word if no record shows it", async () => {
    const log = memoryLog();
    log.append();
    const page = await drop(await log.pack({ from: moment(100) }), log.vkey());
    await page.waitForSelector("text=alice, according to its maker");
  });

  test.each<[string, (lines: readonly string[]) => readonly string[], string]>([
    [
      "a changed record",
      (all) => all.with(amid(all), (all[amid(all)] ?? "").replace("principal_id", "principal_iD")),
      "record",
    ],
    ["a left out record", (all) => all.toSpliced(amid(all), 1), "gap"],
    ["its last entry left out", (all) => all.slice(0, -1), "last leaf is not shown"],
    ["two entries in another order", (all) => all.with(amid(all), all[amid(all) - 1] ?? ""), "out of order"],
    [
      "another period in its header",
      (all) => all.with(0, (all[0] ?? "").replace(/"to":"[^"]*"/, '"to":"2100-01-01T00:00:00.000Z"')),
      "",
    ],
  ])("is refused with %s", async (_, change, reason) => {
    const page = await drop(sealed(change(lines)));
    await page.waitForSelector(".proof.failed");
    expect(await page.locator(".proof.failed").innerText()).toContain(reason);
    expect(await page.locator(".rows").count()).toBe(0);
  });

  test("is refused under the key of another log, and once it was cut off", async () => {
    const foreign = await drop(sealed(lines), keys["tenant-c"]);
    await foreign.waitForSelector(".proof.failed >> text=not signed by a trusted key");
    const cut = await drop(sealed(lines).slice(0, -40));
    await cut.waitForSelector(".proof.failed >> text=cut off");
  });
});

test("a session of another tenant sees nothing, by permalinks and the report's route neither", async () => {
  const token = await gateway.token({ clientId: "tenant-c" });
  const { page, requests } = await openPage(browser);
  for (const path of ["", "/ledger", principal, "/reports#template=access&last=30d"]) {
    await signIn(page, pageOf(path), token);
    await page.waitForSelector("h1 >> text=There is no such log");
    expect(await page.locator("body").innerText()).not.toMatch(/tenant-a|cust-8/);
  }
  expect(requests.filter((url) => url.includes(`/ledger/${logs["tenant-a"]}`))).toEqual([]);
  for (const query of ["template=access&last=30d", "template=erasures&last=30d&format=csv", "template=x"])
    expect((await get(`/ledger/${logs["tenant-a"]}/report?${query}`, token)).status).toBe(404);
  expect((await get(`/ledger/${logs["tenant-c"]}/report?template=access&last=30d`, token)).status).toBe(200);
});
