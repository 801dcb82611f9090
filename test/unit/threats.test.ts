/** Every attack that SECURITY.md lists has the test that it names. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const text = readFileSync(new URL("../../SECURITY.md", import.meta.url), "utf8");
const attacks = text
  .split(/^(?=\| attack \|)/m)
  .slice(1)
  .flatMap((table) => (/^(?:\|.*\n)+/.exec(table)?.[0] ?? "").trim().split("\n").slice(2));
const named = attacks.map((row) => /\| `([a-z0-9/.-]+\.ts)` "(.+)" \|$/.exec(row)?.slice(1) ?? [row, ""]);

test("SECURITY.md lists attacks of every kind", () => {
  expect(attacks.length).toBeGreaterThan(150);
});

test.each(named)("%s has %j", (file, name) => {
  expect(name).not.toBe("");
  expect(readFileSync(new URL(`../${file}`, import.meta.url), "utf8")).toContain(name);
});
