/** Headless Chromium that has only the service to talk to, and notes everything that it asks for or complains about. */
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";

/** Without these, the browser calls home by itself. */
const quiet = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

export function launchBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: "/usr/bin/chromium", args: quiet });
}

/** A page, and what happened on it. */
export interface ObservedPage {
  readonly page: Page;
  /** URLs of all requests, in order. */
  readonly requests: readonly string[];
  /** Errors and warnings of the console, and uncaught errors: a violated content security policy is one of them. */
  readonly complaints: readonly string[];
}

export async function openPage(browser: Browser, options: BrowserContextOptions = {}): Promise<ObservedPage> {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const requests: string[] = [];
  const complaints: string[] = [];
  page.on("request", (request) => requests.push(request.url()));
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  return { page, requests, complaints };
}
