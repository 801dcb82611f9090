/** Headless Chromium that has only the service to talk to, and notes everything that it asks for or complains about. */
import { type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { afterAll, onTestFinished } from "vitest";

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

/** A page, and what happened on it. */
export interface ObservedPage {
  readonly page: Page;
  /** URLs of all requests, in order. */
  readonly requests: readonly string[];
  /** Errors and warnings of the console, and uncaught errors: a violated content security policy is one of them. */
  readonly complaints: readonly string[];
}

/** Opens a page in a context of its own, until the end of the test. */
export type OpenPage = (options?: BrowserContextOptions) => Promise<ObservedPage>;

/** Launches it for all tests of a file. To be called while the file loads. */
export async function browserForFile(): Promise<OpenPage> {
  const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: quiet });
  afterAll(() => browser.close());
  return async (options = {}) => {
    const context = await browser.newContext(options);
    // A page that stays open goes on asking and drawing.
    onTestFinished(() => context.close());
    const page = await context.newPage();
    const requests: string[] = [];
    const complaints: string[] = [];
    page.on("request", (request) => requests.push(request.url()));
    page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") complaints.push(message.text());
    });
    page.on("pageerror", (error) => complaints.push(String(error)));
    return { page, requests, complaints };
  };
}
