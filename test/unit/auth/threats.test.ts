import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const document = readFileSync(new URL("../../../docs/authentication.md", import.meta.url), "utf8");
const rows = [...document.matchAll(/^\|.*\| `([a-z0-9/-]+\.test\.ts)` "(.+)" \|$/gm)].map((match) => match.slice(1));

test("every threat that the document names has the test that it names", () => {
  const threats = document.slice(document.indexOf("## Threats")).match(/^\| /gm)?.length ?? 0;
  // All rows but the head's.
  expect(rows).toHaveLength(threats - 1);
  expect(rows.length).toBeGreaterThan(30);
});

test.each(rows)("%s has %j", (file, name) => {
  expect(readFileSync(new URL(`../../${file}`, import.meta.url), "utf8")).toContain(name);
});
