/** The rooms: which may import from which. The rules are `scripts/arrows.ts`, and `npm run lint` holds the source to them. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { breaches } from "../../scripts/arrows.ts";

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "arrows-"));
});
afterAll(() => rmSync(directory, { recursive: true }));

/** What the rules say of a project with these files in `src`. */
function judged(files: Readonly<Record<string, string>>) {
  rmSync(join(directory, "src"), { recursive: true, force: true });
  for (const [file, text] of Object.entries(files)) {
    const path = join(directory, "src", file);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
  return breaches(directory);
}

test.each([
  (path: string) => `import "${path}";`,
  (path: string) => `import type { Any } from "${path}";`,
  (path: string) => `export * from "${path}";`,
  (path: string) => `export const any = () => import("${path}");`,
  (path: string) => `export type Type = import("${path}").Type;`,
  (path: string) => `export const url = new URL("${path}", import.meta.url);`,
])("%s imports only the rooms and packages of its row", (spelling) => {
  const lines = ["../../cli/any.ts", "./own.ts", "fastify", "jose"].map(spelling);
  const found = judged({ "auth/deep/any.ts": lines.join("\n") });
  expect(found.map(({ line }) => line)).toEqual([1, 3]);
});

test("a room without a route imports no other, and no import is computed", () => {
  const text = 'export const path = "/v1/sdk/evidence";\nexport const any = (path: string) => import(path);\n';
  expect(
    judged({ "policy/model/any.ts": text })
      .map(({ line }) => line)
      .sort(),
  ).toEqual([1, 2]);
});

test("JSON is parsed in one file", () => {
  const text = "export const value = JSON.parse('{}');";
  const found = judged({ "base/json.ts": text, "base/any.ts": text, "policy/model/any.ts": text });
  expect(found.map(({ file }) => file)).toEqual(["base/any.ts", "policy/model/any.ts"]);
});

test("a file belongs to a room", () => {
  const found = judged({ "stray.ts": "export const stray = true;" });
  expect(found).toEqual([{ file: "stray.ts", line: 1, problem: "belongs to no room" }]);
});

test("imports form no cycle, including those of types", () => {
  const importing = (other: string) => `import type { Other } from "./${other}.ts";\nexport type One = Other;`;
  const files = { "base/one.ts": importing("two"), "base/two.ts": importing("one"), "base/three.ts": importing("two") };
  const circle = (one: string, other: string) => ({
    file: `base/${one}.ts`,
    line: 1,
    problem: `circle: ${[one, other, one].map((name) => `base/${name}.ts`).join(" → ")}`,
  });
  // Three leads to the circle, and is not on it.
  expect(judged(files)).toEqual([circle("one", "two"), circle("two", "one")]);
});

test("folders form no import cycle, even if no file imports itself", () => {
  const files = {
    "cli/one/low.ts": "export type Low = string;",
    "cli/one/high.ts": 'import type { Other } from "../two/other.ts";\nexport type High = Other;',
    "cli/two/other.ts": 'import type { Low } from "../one/low.ts";\nexport type Other = Low;',
  };
  expect(judged(files)).toEqual([
    { file: "cli/one/high.ts", line: 1, problem: "circle: cli/one → cli/two → cli/one" },
    { file: "cli/two/other.ts", line: 1, problem: "circle: cli/two → cli/one → cli/two" },
  ]);
});
