import { expect, test } from "vitest";
import { landingPage, prefersJson } from "../../../src/portal/pages.ts";

test.each([
  [undefined, false],
  ["*/*", false],
  ["application/json", true],
  ["Application/JSON; q=0.5", true],
  ["text/html,application/xhtml+xml,*/*;q=0.8", false],
  ["application/json;q=0.4, text/html;q=0.5", false],
  ["application/json, text/html", false],
  ["application/*, text/html;q=0.1", true],
  ["application/json;q=0", false],
  ["application/json;q=zero", false],
  ["image/png", false],
])("Accept %j asks for JSON: %j", (accept, expected) => {
  expect(prefersJson(accept)).toBe(expected);
});

const options = { service: 'svc"<b>', version: "1.2.3", explorer: true, isReady: () => true };

test("names are escaped, and what is switched off is not linked", async () => {
  const html = String((await landingPage(options).content({ accept: undefined })).body);
  expect(html).toContain("svc&quot;&lt;b&gt;");
  expect(html).toContain('href="explorer"');
  const bare = await landingPage({ ...options, explorer: false, isReady: () => false }).content({
    accept: "application/json",
  });
  expect(JSON.parse(String(bare.body))).toEqual({
    service: 'svc"<b>',
    version: "1.2.3",
    status: "not_ready",
    links: {},
  });
});
