/** Headless Chromium that has only the service to talk to, and notes everything that it asks for or complains about. */
import { type BrowserContextOptions, chromium } from "playwright-core";
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

/**
 * Launches it for all tests of a file. To be called while the file loads. Resolves with a function that opens a page in a
 * separate context, until the end of the test.
 */
export async function browserForFile() {
  const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: quiet });
  afterAll(() => browser.close());
  return async (options: BrowserContextOptions = {}) => {
    const context = await browser.newContext(options);
    // A page that stays open goes on asking and drawing.
    onTestFinished(() => context.close());
    const page = await context.newPage();
    /** URLs of all requests, in order. */
    const requests: string[] = [];
    /** Errors and warnings of the console, and uncaught errors: a violated content security policy is one of them. */
    const complaints: string[] = [];
    page.on("request", (request) => requests.push(request.url()));
    page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") complaints.push(message.text());
    });
    page.on("pageerror", (error) => complaints.push(String(error)));
    return { page, requests, complaints };
  };
}
