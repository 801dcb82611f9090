/** Sign-in to the console by OpenID Connect, with a real issuer and headless Chromium. */
import { writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { recordSamples } from "../../dev/sample-records.ts";
import { browserForFile } from "../harness/browser.ts";
import { searchingClients } from "../harness/console.ts";
import { buildConsole, type ConsoleLog } from "../harness/console-pages.ts";
import { folderForFile } from "../harness/folder.ts";
import { gatewayForFile } from "../harness/gateway.ts";
import { forTest } from "../harness/lifetimes.ts";
import { freePort, listenOnLoopback } from "../harness/loopback.ts";

const clients = searchingClients("tenant-a", "tenant-c");
const clientSecret = "console-secret-".padEnd(40, "x");
const people = { olga: ["operator"], audrey: ["auditor:tenant-a"], nadia: [] };
/** Milliseconds by which the service's clock is ahead. */
let aheadMs = 0;

await buildConsole();
const directory = folderForFile("console-sign-in");
const [opsPort, issuerPort] = await Promise.all([freePort(), freePort()]);
const url = `http://127.0.0.1:${opsPort}`;
const [rule, secret] = [join(directory, "sign-in.yaml"), join(directory, "secret")];
await writeFile(secret, clientSecret, { mode: 0o600 });
await writeFile(
  rule,
  `issuer: http://127.0.0.1:${issuerPort}\nclient_id: console\nclient_secret_file: ${secret}\nurl: ${url}\n`,
);
const redirectUri = `${url}/console/sign-in/callback`;
const gateway = await gatewayForFile({
  opsPort,
  issuer: { clients, port: issuerPort, signIn: { clientId: "console", clientSecret, redirectUri, people } },
  env: { SVC_CONSOLE_SIGN_IN: rule },
  overrides: { clock: { now: () => Date.now() + aheadMs } },
});
const openPage = await browserForFile();
for (const { clientId } of clients) await recordSamples({ url: gateway.url, token: await gateway.token({ clientId }) });
const listed = (await (await fetch(`${gateway.opsUrl}/ledger`)).json()) as { readonly logs: readonly ConsoleLog[] };
const logs = Object.fromEntries(listed.logs.map(({ tenant_id, name }) => [tenant_id, name]));

/** Goes to the issuer and signs in there, as far as its page; then back. */
async function signIn(page: Page, login: string, path = "/console"): Promise<void> {
  await page.goto(gateway.opsUrl + path);
  await page.click("text=Sign in as yourself");
  await logIn(page, login);
  await page.waitForURL(`${gateway.opsUrl}/console**`);
}

/** On the issuer's page. */
async function logIn(page: Page, login = "olga"): Promise<void> {
  await page.fill("input[name=login]", login);
  await page.fill("input[name=password]", "any");
  await page.click("button[type=submit]");
}

test("a person signs in at the issuer, returns to the page, stays signed in, and signs out", async () => {
  const { page, complaints } = await openPage();
  const path = `/console/logs/${logs["tenant-a"]}/ledger`;
  await signIn(page, "olga", path);
  await page.waitForSelector(".rows tbody tr");
  expect(new URL(page.url()).pathname).toBe(path);
  const cookies = (await page.context().cookies()).filter(({ name }) => name.includes("console"));
  expect(cookies).toEqual([
    expect.objectContaining({ name: "console-session", httpOnly: true, secure: true, sameSite: "Strict", path: "/" }),
  ]);
  expect(await page.evaluate("[document.cookie, { ...localStorage, ...sessionStorage }]")).toEqual(["", {}]);
  await page.reload();
  await page.waitForSelector(".rows tbody tr");
  expect(gateway.logged.some((line) => /operator_signed_in.*"operator":"olga"/.test(line))).toBe(true);
  const cookie = `${cookies[0]?.name}=${cookies[0]?.value}`;
  // Without an answer the session goes on, and the page says so.
  await page.route("**/console/sign-out", (route) => route.abort());
  await page.click("text=Sign out");
  await page.waitForSelector("text=The session did not end");
  await page.unroute("**/console/sign-out");
  await page.reload();
  await page.waitForSelector(".rows tbody tr");
  await page.click("text=Sign out");
  await page.waitForSelector("text=You are signed out.");
  await expect
    .poll(async () => (await page.context().cookies(gateway.opsUrl)).map(({ name }) => name))
    .not.toContain("console-session");
  // A copy of the cookie does not outlive it.
  expect((await asCookie(cookie)).status).toBe(401);
  // The issuer's own pages lack a font and an icon.
  expect(complaints.filter((complaint) => !complaint.startsWith("Failed to load resource"))).toEqual([]);
});

/** Asks for the logs with a cookie, as a page of the console or as another. */
function asCookie(cookie: string, site: string | undefined = "same-origin", path = "/ledger", method = "GET") {
  const headers = { cookie, ...(site !== undefined && { "sec-fetch-site": site }) };
  return fetch(gateway.opsUrl + path, { headers, method });
}

async function sessionOf(login: string): Promise<string> {
  const { page } = await openPage();
  await signIn(page, login);
  await page.waitForSelector("text=Sign out");
  const [found] = (await page.context().cookies()).filter(({ name }) => name === "console-session");
  return `console-session=${found?.value}`;
}

test("an auditor sees the log of its tenant, and no other, including by permalink", async () => {
  const { page } = await openPage();
  await signIn(page, "audrey", `/console/logs/${logs["tenant-c"]}/ledger`);
  await page.waitForSelector("h1 >> text=There is no such log");
  await page.click("nav >> text=Policies");
  await page.goto(`${gateway.opsUrl}/console/logs/${logs["tenant-a"]}/policies`);
  await page.waitForSelector("text=The platform's are for operators");
  const cookie = await sessionOf("audrey");
  const other = `/ledger/${logs["tenant-c"]}`;
  for (const path of ["checkpoint", "search", "policies", "playground", "record/x"])
    expect([path, (await asCookie(cookie, "same-origin", `${other}/${path}`)).status]).toEqual([path, 404]);
  const listed = (await (await asCookie(cookie)).json()) as {
    readonly logs: readonly { readonly tenant_id: string }[];
  };
  expect(listed.logs.map(({ tenant_id }) => tenant_id)).toEqual(["tenant-a"]);
});

test("a person without a role gets the reason, and no session", async () => {
  const { page } = await openPage();
  await signIn(page, "nadia");
  await page.waitForSelector("text=have no role here");
  expect((await page.context().cookies()).map(({ name }) => name)).not.toContain("console-session");
});

test("a session ends after 30 minutes, even in use", async () => {
  const { page } = await openPage();
  await signIn(page, "olga", `/console/logs/${logs["tenant-a"]}`);
  // What this page loads last: its answer would end the session before the click.
  await page.waitForSelector(".tile >> text=Break-glass");
  aheadMs = 31 * 60_000;
  try {
    await page.click("nav >> text=Ledger");
    await page.waitForSelector("text=The session ended: sign in again.");
  } finally {
    aheadMs = 0;
  }
});

test("a cookie of another site, or of another port of this host, is refused", async () => {
  const cookie = await sessionOf("olga");
  for (const site of ["cross-site", "same-site", "none", ""])
    for (const [path, method] of [
      ["/ledger", "GET"],
      [`/ledger/${logs["tenant-a"]}/playground`, "POST"],
    ] as const)
      expect([site, (await asCookie(cookie, site, path, method)).status]).toEqual([site, 401]);
  expect((await asCookie(cookie, "same-site", "/console/sign-out", "POST")).status).toBe(400);
  expect((await asCookie(cookie)).status).toBe(200);
  // In the browser: a page on another port is of the same site, so that the cookie is sent.
  const evil = await startEvil(`${gateway.opsUrl}/console/sign-out`);
  const { page } = await openPage();
  await signIn(page, "olga");
  await page.waitForSelector("text=Sign out");
  await page.goto(evil);
  await page.waitForSelector("text=posted");
  await page.goto(`${gateway.opsUrl}/console`);
  await page.waitForSelector("text=Sign out");
});

/** Serves a page that posts to the address with the browser's cookies. Resolves with its address. */
async function startEvil(target: string): Promise<string> {
  const script = `fetch(${JSON.stringify(target)}, { method: "POST", mode: "no-cors", credentials: "include" }).finally(() => document.body.append("posted"))`;
  const server = createServer((_request, response) => {
    response.setHeader("content-type", "text/html").end(`<body><script>${script}</script>`);
  });
  const { port } = await forTest(listenOnLoopback(server));
  return `http://127.0.0.1:${port}/`;
}

test("an answer with another state, code, nonce or issuer, or in another browser, makes no session", async () => {
  const callback = (query: string, cookie = "") =>
    fetch(`${gateway.opsUrl}/console/sign-in/callback?${query}`, { headers: { cookie }, redirect: "manual" });
  const begun = await fetch(`${gateway.opsUrl}/console/sign-in`, { redirect: "manual" });
  const flow = begun.headers.getSetCookie()[0]?.split(";")[0] ?? "";
  const asked = new URL(begun.headers.get("location") ?? "").searchParams;
  expect([asked.get("code_challenge_method"), asked.get("nonce")?.length]).toEqual(["S256", 43]);
  const state = asked.get("state");
  for (const [query, cookie] of [
    [`code=x&state=${state}`, flow],
    ["code=x&state=y", flow],
    [`code=x&state=${state}`, ""],
    [`code=x&state=${state}`, `${flow}x`],
    [`code=x&state=${state}&iss=https://other.example`, flow],
    [`error=access_denied&state=${state}`, flow],
    ["", flow],
  ] as const) {
    const answer = await callback(query, cookie);
    expect([answer.status, answer.headers.get("location")]).toEqual([303, "/console?refused=refused"]);
    expect(answer.headers.getSetCookie().join()).not.toContain("console-session");
  }
  // A sign-in that began elsewhere ends in this browser: its cookie is not here.
  const elsewhere = await fetch(`${gateway.opsUrl}/console/sign-in`, { redirect: "manual" });
  const { page } = await openPage();
  let answered = "";
  page.on("request", (request) => {
    if (request.url().includes("/console/sign-in/callback")) answered = new URL(request.url()).search.slice(1);
  });
  await page.goto(elsewhere.headers.get("location") ?? "");
  await logIn(page);
  await page.waitForSelector("text=was not completed in this browser");
  expect(answered).toContain("code=");
  expect((await page.context().cookies()).map(({ name }) => name)).not.toContain("console-session");
  // Its code with the state, nonce and verifier of another sign-in: the issuer and the nonce do not agree.
  const mixed = new URLSearchParams({ ...Object.fromEntries(new URLSearchParams(answered)), state: state ?? "" });
  for (const query of [answered, mixed.toString()])
    expect((await callback(query, flow)).headers.get("location")).toBe("/console?refused=refused");
});

test("a session's cookie is not accepted as a sign-in's, and a changed one not at all", async () => {
  const cookie = await sessionOf("olga");
  const begun = await fetch(`${gateway.opsUrl}/console/sign-in`, { redirect: "manual" });
  const flow = begun.headers.getSetCookie()[0]?.split(";")[0]?.replace("console-sign-in", "console-session") ?? "";
  // Of two cookies none counts, which on loopback is as without any.
  for (const forged of [flow, cookie.slice(0, -2), `${cookie}; ${cookie}`, "console-session=e30.e30.e30"])
    expect((await asCookie(forged)).status).toBe(forged.includes(";") ? 200 : 401);
});

test.each([
  "https://evil.example",
  "//evil.example",
  "/console/../evil",
  "/console//evil.example",
  "/ledger",
  "/console?x",
])("a sign-in returns to pages of the console only, never to %s", async (to) => {
  const { page } = await openPage();
  await page.goto(`${gateway.opsUrl}/console/sign-in?to=${encodeURIComponent(to)}`);
  await logIn(page);
  await page.waitForSelector("text=Sign out");
  expect(page.url()).toContain(`${gateway.opsUrl}/console`);
});
