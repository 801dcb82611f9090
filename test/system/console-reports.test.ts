import { createHash } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { recordSamples } from "../../dev/sample-records.ts";
import { parsePrincipalId } from "../../src/base/ids.ts";
import type { JsonObject } from "../../src/base/json.ts";
import type { NewRecord } from "../../src/ledger/ports/record.ts";
import { openSqliteStores } from "../../src/stores/sqlite/open-ledger.ts";
import { recordMaker, seededRandom, storeIn, tenant } from "../contract/ledger-records.ts";
import { consoleForFile, expectFitting, screens, watchDialogs } from "../harness/console-pages.ts";
import { folderForFile } from "../harness/folder.ts";
import { run as runCommand } from "../unit/cli/surroundings.ts";
import { memoryLog, moment } from "../unit/ledger/pack/memory-log.ts";

const markup = `"><img src=x onerror="alert(1)"><script>alert(2)</script>`;
const erasedRecords = 12;
const records = 10_000;
const periodMs = 30 * 86_400_000;
/** Records under way at once. */
const inFlight = 256;

const digestOf = (text: string) => `sha256:${createHash("sha256").update(text).digest("hex")}`;

const directory = folderForFile("console-reports");
const dataDir = join(directory, "data");
await mkdir(dataDir);
const settings = join(directory, "settings.yaml");
const store = `sqlite:${join(dataDir, "platform.db")}`;
await writeFile(settings, JSON.stringify({ SVC_STORE: store, SVC_LEDGER_KEY: join(dataDir, "ledger.key") }));
const denials = await writeManyRecords();
const decisionId = denials.at(-1) ?? "";
const erased = denials.slice(0, erasedRecords).flatMap((id) => ["--record", id]);
const statement = ["--reason", `request of ${markup}`, "--operator", "olga", "--yes"];
await run("ledger", "erase", "--tenant", "tenant-a", ...erased, ...statement);
const tenants = ["tenant-a", "tenant-c"];
const { gateway, openPage, asked, signIn, logOf } = await consoleForFile(directory, tenants, { dataDir });
await recordSamples({ url: gateway.url, token: await gateway.token({ clientId: "tenant-c" }) });
const [log, otherLog] = [await logOf("tenant-a"), await logOf("tenant-c")];

/** Runs a command beside the service. Fails with its output if it fails. */
async function run(...words: readonly string[]): Promise<string> {
  const { code, out, err } = await runCommand(...words, "--config", settings);
  if (code !== 0) throw new Error(err);
  return out;
}

const pageOf = (path: string) => `/console/logs/${log.name}${path}`;
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
  artifact: () => [pageOf(`/artifact#digest=${encodeURIComponent(digestOf("1"))}`), ".timeline tbody tr"],
  system: () => ["/console/system", ".proof dl"],
  verify: () => ["/console/verify", "textarea"],
};

async function openKind(page: Page, kind: string): Promise<void> {
  const [path, ready] = pages[kind]?.() ?? ["", ""];
  // Who verifies need not sign in.
  if (kind === "verify") await page.goto(gateway.opsUrl + path);
  else await signIn(page, path);
  await page.waitForSelector(ready);
  if (ready === "iframe") await page.frameLocator("iframe").locator("h1").waitFor();
}

describe.each(screens)("%s", (screen, options) => {
  test.each(Object.keys(pages))("%s fits, keeps markup as text, and axe finds no serious violation", async (kind) => {
    const { page, complaints } = await openPage(options);
    const dialogs = watchDialogs(page);
    await openKind(page, kind);
    await expectFitting(page, { iframes: false });
    expect(await page.locator("main img, main script").count()).toBe(0);
    expect([dialogs, complaints]).toEqual([[], []]);
  });

  test("a report file fits, and axe finds no serious violation", async () => {
    const { page, complaints } = await openPage(options);
    const file = join(directory, `report-${screen}.html`);
    await run("ledger", "report", "--tenant", "tenant-a", "--template", "break-glass", "--last", "7d", "--out", file);
    await page.goto(pathToFileURL(file).href);
    await expectFitting(page, { iframes: false });
    expect(await page.locator("main img, main script").count()).toBe(0);
    // The width of A4 without its margins, at 96 pixels an inch.
    await page.setViewportSize({ width: 688, height: 1_000 });
    await page.emulateMedia({ media: "print", colorScheme: "dark" });
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(688);
    expect(complaints).toEqual([]);
  });
});

test("the shown report equals the saved one; commands write it too, with its proof", async () => {
  const { page, requests, complaints } = await openPage();
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

test("a principal's page counts its operations, and links to its denials", async () => {
  const { page } = await openPage();
  await signIn(page, pageOf("/ledger#q=principal%3Areports"));
  await page.click(".rows tbody tr >> nth=0 >> a >> text=reports");
  await page.waitForSelector("h1 >> text=reports");
  await page.waitForSelector("h2 >> text=Newest records");
  const search = async (criteria: object) => {
    const all = { principal: "reports", last: "30d", ...criteria };
    return (await asked(`/ledger/${log.name}/search`, all)).counted;
  };
  const { records: denied } = await search({ outcome: "deny", count_by: "day" });
  expect(denied).toBeGreaterThan(50);
  expect(await page.locator(".facts").innerText()).toMatch(new RegExp(`Denied\\s+${denied} in 30 days`));
  await page.click(`text=${denied} in 30 days`);
  await expect.poll(() => page.locator("input[type=search]").inputValue()).toContain("outcome:deny");
});

test("the ledger page saves all matches as CSV, as the command prints it", async () => {
  const { page } = await openPage();
  await signIn(page, pageOf("/ledger#q=alert%3Abreak-glass"));
  await page.click("text=Make a CSV of all that match");
  const link = page.locator("a[download]");
  await link.waitFor();
  const [download] = await Promise.all([page.waitForEvent("download"), link.click()]);
  const options = ["--tenant", "tenant-a", "--alert", "break-glass", "--newest", "--csv", "--limit", "1000"];
  expect(await readFile(await download.path(), "utf8")).toBe(await run("ledger", "search", ...options));
});

describe("a pack, with the network cut", async () => {
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

  const out = join(directory, "period.pack");
  const [from, to] = [3, 2].map((days) => new Date(Date.now() - days * 86_400_000).toISOString());
  await run("ledger", "pack", "--tenant", "tenant-a", "--from", from ?? "", "--to", to ?? "", "--out", out);
  const lines = (await readFile(out, "utf8")).trimEnd().split("\n").slice(0, -1);

  async function drop(text: string, key = log.verifier_keys[0] ?? ""): Promise<Page> {
    const { page } = await openPage();
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
    await expectFitting(page, { iframes: false });
  });

  test("refuses two records of one id with one erasure", async () => {
    const log = memoryLog();
    log.forgeTwins();
    const page = await drop(await log.pack({ to: moment(100) }), log.vkey());
    await page.waitForSelector("text=the id of another erased record");
  });

  test("attributes the tenant to the pack's maker if no record shows it", async () => {
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

  test("is refused under the key of another log, and if it is cut", async () => {
    const foreign = await drop(sealed(lines), otherLog.verifier_keys[0]);
    await foreign.waitForSelector(".proof.failed >> text=not signed by a trusted key");
    const cut = await drop(sealed(lines).slice(0, -40));
    await cut.waitForSelector(".proof.failed >> text=cut off");
  });
});

/**
 * Decisions, registrations and events of several principals. One decision in twelve is denied, one in 97 breaks glass,
 * one access in nine has no evidence, and the policy revision changes twice. Resolves with ids of denials.
 */
async function writeManyRecords(): Promise<readonly string[]> {
  const nowMs = Date.now();
  const clock = { nowMs: nowMs - periodMs, now: () => clock.nowMs };
  const random = seededRandom("many");
  const ledger = (await openSqliteStores({ ...storeIn(dataDir), originPrefix: "localhost/dev", clock, random })).ledger;
  const makeRecord = recordMaker(clock, random);
  const principals = ["payroll-service", "reports", "archive", "partner-gateway", markup.slice(0, 40)];
  const denials: string[] = [];
  /** What was decided and not yet evidenced. */
  const open: { readonly id: string; readonly request: JsonObject; readonly caller: NewRecord["caller"] }[] = [];
  const recordAt = (number: number): NewRecord => {
    clock.nowMs = nowMs - periodMs + Math.floor(((number + 1) * (periodMs - 60_000)) / records);
    const principal = principals[(number * 7) % principals.length] ?? "";
    const caller = { principal_id: parsePrincipalId(principal), subject: principal, auth_source: "bearer_token" };
    const cited = number % 2 === 1 ? open.shift() : undefined;
    if (cited !== undefined) {
      const request = { ...cited.request, decision_id: cited.id, event_type: "access", outcome: "completed" };
      const outcome = { accepted: true, citation: "matched" };
      return makeRecord(tenant("tenant-a"), { kind: "evidence", caller: cited.caller, request, outcome });
    }
    const isHostile = number % 500 === 0;
    const resource = { kind: "customer-record", id: isHostile ? markup : `cust-${8_000 + (number % 300)}` };
    const allow = number % 12 !== 0;
    const request = {
      operation: number % 3 === 0 ? "protect" : "access",
      workload: { application: isHostile ? markup : "payroll" },
      ...{ resource, purpose: isHostile ? markup : "quarterly-audit", labels: [isHostile ? markup : "confidential"] },
      ...{ attributes: {}, artifact_digest: digestOf(String(number % 300)) },
    };
    const revision = `sha256:${String(Math.floor((number * 3) / records)).repeat(64)}`;
    const reasons = isHostile
      ? [markup]
      : [allow ? "tenant/readers" : `tenant/${["eu-residency", "owner-only"][number % 24 === 0 ? 0 : 1]}`];
    const record = makeRecord(tenant("tenant-a"), {
      caller: caller as NewRecord["caller"],
      request,
      outcome: { allow, policy_revision: revision, reasons, ...(number % 97 === 0 && { alerts: ["break-glass"] }) },
      policyRevision: revision,
    });
    if (!allow) denials.push(record.recordId);
    else if (number % 9 !== 0) open.push({ id: record.recordId, request, caller: record.caller });
    return record;
  };
  let next = 0;
  await Promise.all(
    Array.from({ length: inFlight }, async () => {
      while (next < records) await ledger.append(recordAt(next++));
    }),
  );
  await ledger.close();
  return denials;
}
