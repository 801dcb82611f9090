/** The console of a gateway: who signs in, and how a page must look. */
import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import type { BrowserContextOptions, Page } from "playwright-core";
import { expect } from "vitest";
import { defaultClient } from "../../dev/issuer.ts";
import { formatOpsCredentials, hashOpsToken } from "../../src/credentials/ops-credentials.ts";

/** A client for each tenant, with the tenant's name, that may search its log. */
export function searchingClients(...tenants: readonly string[]) {
  const scopes = [...defaultClient().scopes, "ledger.search"];
  return tenants.map((tenantId) => ({ ...defaultClient(), clientId: tenantId, tenantId, scopes }));
}

/** Writes the file of operators, by name. Resolves with its path. */
export async function writeOperators(folder: string, tokens: Readonly<Record<string, string>>): Promise<string> {
  const path = join(folder, "operators");
  const operators = Object.entries(tokens).map(([name, token]) => ({ name, hash: hashOpsToken(token) }));
  await writeFile(path, formatOpsCredentials(operators), { mode: 0o600 });
  return path;
}

/** Builds the console. Resolves with the text of axe, for pages. */
export async function buildConsole(): Promise<string> {
  const root = join(import.meta.dirname, "../..");
  await promisify(execFile)("npm", ["run", "-s", "console"], { cwd: root });
  return readFile(join(root, "console/node_modules/axe-core/axe.min.js"), "utf8");
}

export async function signInWithToken(page: Page, url: string, token: string): Promise<void> {
  await page.goto(url);
  await page.fill("input[name=token]", token);
  await page.click("button[type=submit]");
  await page.waitForSelector("text=Sign out");
}

const [narrow, wide] = [
  { width: 400, height: 860 },
  { width: 1_600, height: 1_000 },
];
export const screens: readonly [string, BrowserContextOptions][] = [
  ["narrow, light", { viewport: narrow, colorScheme: "light" }],
  ["narrow, dark", { viewport: narrow, colorScheme: "dark" }],
  ["wide, light", { viewport: wide, colorScheme: "light" }],
  ["wide, dark", { viewport: wide, colorScheme: "dark" }],
];

/**
 * Expects that the page is as wide as its screen, and that axe finds nothing serious.
 * @param axe its text, from `buildConsole`
 */
export async function expectFitting(page: Page, axe: string, options = {}): Promise<void> {
  const [pageWidth, width] = (await page.evaluate("[document.documentElement.scrollWidth, innerWidth]")) as number[];
  expect(pageWidth).toBe(width);
  await page.evaluate(axe);
  const { violations } = (await page.evaluate(`axe.run(${JSON.stringify(options)})`)) as {
    readonly violations: readonly { readonly id: string; readonly impact: string; readonly nodes: readonly object[] }[];
  };
  const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  expect(serious.map(({ id, nodes }) => ({ id, first: nodes[0] }))).toEqual([]);
}

/** Keeps a picture of the page in the folder that SVC_TEST_SCREENSHOTS names, if it names one. */
export async function photograph(page: Page, name: string, folder = process.env.SVC_TEST_SCREENSHOTS): Promise<void> {
  if (folder !== undefined) await page.screenshot({ path: `${folder}/${name}.png`, fullPage: true });
}
