/** Every attack that a document lists has the test that it names. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const documents = ["docs/authentication.md", "SECURITY.md"].map((file) => {
  const text = readFileSync(new URL(`../../${file}`, import.meta.url), "utf8");
  const tables = text.split(/^(?=\| attack \|)/m).slice(1);
  const attacks = tables.flatMap((table) => (/^(?:\|.*\n)+/.exec(table)?.[0] ?? "").trim().split("\n").slice(2));
  return { file, attacks };
});
const named = documents.flatMap(({ attacks }) =>
  attacks.map((row) => /\| `([a-z0-9/.-]+\.ts)` "(.+)" \|$/.exec(row)?.slice(1) ?? [row, ""]),
);

test("there are some in each document", () => {
  for (const { attacks } of documents) expect(attacks.length).toBeGreaterThan(30);
});

test.each(named)("%s has %j", (file, name) => {
  expect(name).not.toBe("");
  expect(readFileSync(new URL(`../${file}`, import.meta.url), "utf8")).toContain(name);
});
