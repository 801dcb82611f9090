/** The explorer as a person uses it, in headless Chromium. */
import type { BrowserContextOptions, Locator, Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { furtherNames, furtherRoutes } from "../../src/domain/routes.ts";
import { browserForFile } from "../harness/browser.ts";
import { type Gateway, gatewayForFile, startGateway } from "../harness/gateway.ts";
import { forTest } from "../harness/lifetimes.ts";
import { everyApi } from "../harness/methods.ts";
import { openApiDocument } from "../harness/openapi.ts";

const gateway = await gatewayForFile();
const openPage = await browserForFile();
const token = await gateway.token();

const plan = "#operations-Protection-planProtection";
const whoami = "#operations-Discovery-whoAmI";

async function explore(page: Page, base = gateway.url): Promise<void> {
  await page.goto(`${base}/explorer`);
  await page.waitForSelector(".opblock");
}

async function pasteToken(page: Page): Promise<void> {
  await page.click("button.authorize");
  await page.fill(".modal-ux input", token);
  await page.click(".modal-ux button.authorize");
  await page.click(".modal-ux button.btn-done");
}

/** Opens an operation. Swagger UI can send a request once it has resolved the operation, and then shows what it says. */
async function open(page: Page, operation: string): Promise<void> {
  await page.click(`${operation} .opblock-summary-control`);
  await page.waitForSelector(`${operation} .opblock-description`);
}

async function textOf(element: Locator): Promise<string> {
  return ((await element.textContent()) ?? "").trim();
}

/** Sends what is in the editor of an operation. Returns the status and body that are shown. */
async function send(page: Page, operation: string): Promise<{ status: string; body: string }> {
  await page.click(`${operation} button.execute`);
  const shown = page.locator(`${operation} .live-responses-table .response`);
  await shown.waitFor();
  const status = await textOf(shown.locator(".response-col_status"));
  return { status, body: await textOf(shown.locator(".highlight-code code").first()) };
}

describe("on a desktop", () => {
  test("lists the eight routes, and a call with a pasted token shows its answer", async () => {
    const { page, requests, complaints } = await openPage();
    await explore(page);
    const listed = await page.locator(".opblock-summary-path").allTextContents();
    expect(listed.map((path) => path.replaceAll("\u200b", "")).sort()).toEqual(
      Object.keys(openApiDocument.paths).sort(),
    );
    await pasteToken(page);
    await open(page, plan);
    await page.selectOption(`${plan} .examples-select-element`, "denied");
    const answer = await send(page, plan);
    expect(answer.status).toMatch(/^200/);
    const { caller, decision } = JSON.parse(answer.body);
    expect(await page.getByRole("status").first().textContent()).toBe(
      `DENY platform/do-not-export (decision ${decision.decision_id})`,
    );
    expect(await page.locator("#explorer-outcome").boundingBox()).toMatchObject({ y: expect.closeTo(0, -1) });
    expect([caller.tenant_id, decision.allow]).toEqual(["tenant-a", false]);
    expect(requests).toContain(`${gateway.url}/v1/sdk/protection-plan`);
    expect(requests.filter((url) => new URL(url).origin !== gateway.url && !url.startsWith("data:"))).toEqual([]);
    expect(complaints).toEqual([]);
  });

  test("the panels are in working order, and the rules load on request", async () => {
    const { page } = await openPage({ viewport: { width: 1280, height: 720 } });
    await explore(page);
    const groups = await page.locator(".opblock-tag").evaluateAll((tags) => tags.map((tag) => tag.id));
    expect(groups).toEqual(
      ["Discovery", "Protection", "Registration", "Evidence"].map((name) => `operations-tag-${name}`),
    );
    const first = await page.locator(".opblock").first().boundingBox();
    expect((first?.y ?? 0) + (first?.height ?? 0)).toBeLessThan(720);
    expect(await textOf(page.locator(".explorer-hint"))).toContain("access token of this deployment's issuer");
    const rules = page.locator("#explorer .info .description");
    expect(await rules.isVisible()).toBe(false);
    await page.click("text=Rules of every call");
    expect(await rules.isVisible()).toBe(true);
    expect(await textOf(rules)).toContain("Order of refusal");
  });

  test("the token is stored nowhere", async () => {
    const { page } = await openPage();
    await explore(page);
    await pasteToken(page);
    expect(await page.evaluate("({ ...localStorage, ...sessionStorage })")).toEqual({});
    expect(await page.context().cookies()).toEqual([]);
    await explore(page);
    await open(page, whoami);
    expect((await send(page, whoami)).status).toMatch(/^401/);
  });

  test("parameters in the address change nothing", async () => {
    const { page, requests } = await openPage();
    await page.goto(`${gateway.url}/explorer?url=https://other.example/x.json&configUrl=https://other.example/c.json`);
    await page.waitForSelector(".opblock");
    expect(requests.filter((url) => url.includes("other.example/"))).toEqual([
      expect.stringContaining("/explorer?url="),
    ]);
    expect(await page.locator(".opblock").count()).toBe(8);
  });
});

test("works with the keyboard alone", async () => {
  const { page } = await openPage();
  await explore(page);
  const focus = async (selector: string) => {
    for (let i = 0; i < 60; i++) {
      await page.keyboard.press("Tab");
      if (await page.evaluate(`document.activeElement.matches(${JSON.stringify(selector)})`)) return;
    }
    throw new Error(`${selector} cannot be reached with the Tab key`);
  };
  await focus("button.authorize");
  await page.keyboard.press("Enter");
  await focus(".modal-ux input");
  await page.keyboard.insertText(token);
  await focus(".modal-ux button.authorize");
  await page.keyboard.press("Enter");
  await focus(".modal-ux button.btn-done");
  await page.keyboard.press("Enter");
  await focus(`${whoami} .opblock-summary-control`);
  await page.keyboard.press("Enter");
  await page.waitForSelector(`${whoami} .opblock-description`);
  await focus(`${whoami} button.execute`);
  await page.keyboard.press("Enter");
  await page.locator(`${whoami} .live-responses-table .response`).waitFor();
  expect(await textOf(page.locator(`${whoami} .live-responses-table`))).toContain("tenant-a");
});

test("a button of the development stack issues tokens, and other services have none", async () => {
  expect((await fetch(`${gateway.url}/explorer/token`)).status).toBe(404);
  const own = await openPage();
  await explore(own.page);
  expect(await own.page.locator("#explorer-token").count()).toBe(0);
  const stack: Gateway = await forTest(startGateway({ overrides: { explorerToken: async () => stack.token() } }));
  const { page, complaints } = await openPage();
  await explore(page, stack.url);
  await page.click("#explorer-token");
  await page.getByText("Calls carry a token").waitFor();
  await open(page, whoami);
  expect((await send(page, whoami)).status).toMatch(/^200/);
  expect(complaints).toEqual([]);
});

test("works behind a path prefix", async () => {
  const { page, requests, complaints } = await openPage();
  const prefixed = `${gateway.url}/apps/platform`;
  // As a proxy passes them on: what is asked for elsewhere is not there.
  await page.route(`${gateway.url}/**`, async (route) => {
    const [, path] = route.request().url().split(prefixed);
    if (path === undefined) return route.fulfill({ status: 404 });
    return route.fulfill({ response: await route.fetch({ url: gateway.url + path, maxRedirects: 0 }) });
  });
  await page.goto(`${prefixed}/`);
  await page.click("text=Explorer");
  await page.waitForSelector(".opblock");
  await pasteToken(page);
  await open(page, whoami);
  expect((await send(page, whoami)).status).toMatch(/^200/);
  expect(requests.filter((url) => !url.startsWith(`${prefixed}/`) && !url.startsWith("data:"))).toEqual([]);
  expect(complaints).toEqual([]);
});

test("an enabled API has a page of its own", async () => {
  const further = await forTest(startGateway({ env: everyApi }));
  const { page, complaints } = await openPage();
  for (const name of furtherNames) {
    const paths = furtherRoutes[name].map(({ path }) => path);
    await explore(page, further.url);
    await page.click(`nav a:text-is("${name}")`);
    await page.waitForSelector(".opblock");
    expect(new URL(page.url()).pathname).toBe(`/explorer-${name}`);
    expect(await textOf(page.locator("nav a[aria-current]"))).toBe(name);
    const listed = await page.locator(".opblock-summary-path").allTextContents();
    expect(listed.map((path) => path.replaceAll("\u200b", "")).sort()).toEqual(paths.toSorted());
  }
  const permit = { decision: true, context: { decision_id: "d-1", reasons: ["tenant/readers"] } };
  await page.route("**/access/v1/evaluation", (route) => route.fulfill({ json: permit }));
  const evaluate = "#operations-Authorization-evaluate";
  await open(page, evaluate);
  await send(page, evaluate);
  expect(await page.getByRole("status").first().textContent()).toBe("ALLOW tenant/readers (decision d-1)");
  expect(complaints).toEqual([]);
});

const screens: [string, BrowserContextOptions][] = [
  ["a phone, light", { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, colorScheme: "light" }],
  ["a phone, dark", { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, colorScheme: "dark" }],
  ["a desktop, dark", { viewport: { width: 1280, height: 900 }, colorScheme: "dark" }],
];
test.each(screens)("fits on %s", async (_name, options) => {
  const { page, complaints } = await openPage(options);
  const isDark = options.colorScheme === "dark";
  for (const path of ["/", "/explorer"]) {
    await page.goto(gateway.url + path);
    if (path === "/explorer") {
      await page.waitForSelector(".opblock");
      await open(page, plan);
      await page.waitForSelector(`${plan} textarea`);
    }
    const [wide, screen] = (await page.evaluate("[document.documentElement.scrollWidth, innerWidth]")) as number[];
    expect({ path, wide }).toEqual({ path, wide: screen });
    const background = String(await page.evaluate("getComputedStyle(document.body).backgroundColor"));
    const brightness = Math.max(...(background.match(/\d+/g) ?? []).slice(0, 3).map(Number));
    expect({ path, dark: brightness < 128 }).toEqual({ path, dark: isDark });
  }
  expect(complaints).toEqual([]);
});
