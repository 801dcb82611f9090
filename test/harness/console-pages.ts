/** The console of a gateway in a browser. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { BrowserContextOptions, Page } from "playwright-core";
import { expect } from "vitest";
import type { StackOptions } from "../../dev/stack.ts";
import { browserForFile } from "./browser.ts";
import { searchingClients, writeOperators } from "./console.ts";
import { gatewayForFile } from "./gateway.ts";
import { runProgram } from "./process.ts";
import { isOfThisRun } from "./this-run.ts";

const root = join(import.meta.dirname, "../..");
/** Of the operator olga. */
const operatorToken = Buffer.alloc(32, 11).toString("base64url");

export interface ConsoleLog {
  readonly tenant_id: string;
  readonly name: string;
  readonly verifier_keys: readonly string[];
}

/** Builds the console, once in a run. */
export async function buildConsole(): Promise<void> {
  if (isOfThisRun(join(root, "console/dist/index.html"))) return;
  await runProgram("npm", ["run", "-s", "console"], { cwd: root });
}

/** Starts a gateway for all tests of a file, with a client of each tenant. To be called while the file loads. */
export async function consoleForFile(
  folder: string,
  tenants: readonly string[],
  { env, ...options }: Partial<StackOptions> = {},
) {
  await buildConsole();
  const credentials = await writeOperators(folder, { olga: operatorToken });
  const issuer = { clients: searchingClients(...tenants) };
  const gateway = await gatewayForFile({ issuer, env: { SVC_OPS_CREDENTIALS: credentials, ...env }, ...options });
  /** Asks the operator listener, as olga; POST if there is a body. */
  // biome-ignore lint/suspicious/noExplicitAny: tests read members of many shapes, and fail where they are not there.
  const asked = async (path: string, body?: object): Promise<any> => {
    const answer = await fetch(gateway.opsUrl + path, {
      headers: { authorization: `Bearer ${operatorToken}`, "content-type": "application/json" },
      ...(body !== undefined && { method: "POST", body: JSON.stringify(body) }),
    });
    return answer.json();
  };
  return {
    gateway,
    openPage: await browserForFile(),
    asked,
    /** Goes to the path and signs in, as olga if there is no token. */
    async signIn(page: Page, path = "/console", token = operatorToken) {
      await page.goto(gateway.opsUrl + path);
      await page.fill("input[name=token]", token);
      await page.click("button[type=submit]");
      await page.waitForSelector("text=Sign out");
    },
    /** The log of the tenant, which is there once something was recorded. */
    async logOf(tenantId: string): Promise<ConsoleLog> {
      const { logs } = await asked("/ledger");
      return logs.find((log: ConsoleLog) => log.tenant_id === tenantId);
    },
  };
}

export const screens: readonly [string, BrowserContextOptions][] = [
  ["narrow, light", { viewport: { width: 400, height: 860 }, colorScheme: "light" }],
  ["wide, dark", { viewport: { width: 1_600, height: 1_000 }, colorScheme: "dark" }],
];

/** Expects that the page is as wide as its screen, and that axe finds nothing serious. */
export async function expectFitting(page: Page, options = {}): Promise<void> {
  await page.evaluate(await readFile(join(root, "console/node_modules/axe-core/axe.min.js"), "utf8"));
  const [pageWidth, width] = (await page.evaluate("[document.documentElement.scrollWidth, innerWidth]")) as number[];
  expect(pageWidth).toBe(width);
  const { violations } = (await page.evaluate(`axe.run(${JSON.stringify(options)})`)) as {
    readonly violations: readonly { readonly id: string; readonly impact: string; readonly nodes: readonly object[] }[];
  };
  const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  expect(serious.map(({ id, nodes }) => ({ id, first: nodes[0] }))).toEqual([]);
}

/** Messages of dialogs that the page opens, so far: markup that was run opens one. */
export function watchDialogs(page: Page): readonly string[] {
  const dialogs: string[] = [];
  page.on("dialog", (dialog) => void dialogs.push(dialog.message()));
  return dialogs;
}
