/** The rooms: which may import from which. The rules are `scripts/arrows.ts`, and `npm run lint` holds the source to them. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { breaches } from "../../scripts/arrows.ts";
import { folderForTest, writeFiles } from "../harness/folder.ts";

/** What the rules say of a project with these files in `src`. */
function judged(files: Readonly<Record<string, string>>) {
  const directory = folderForTest("arrows");
  writeFiles(join(directory, "src"), files);
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

test("a file belongs to a room, one file parses JSON, no import is computed, and a room without routes names none", () => {
  const parsing = "export const value = JSON.parse('{}');\n";
  const found = judged({
    "stray.ts": "export const stray = true;",
    "base/json.ts": parsing,
    "base/any.ts": parsing,
    "policy/model/any.ts":
      'export const path = "/v1/sdk/evidence";\nexport const any = (path: string) => import(path);',
  });
  const places = found.map(({ file, line }) => `${file} ${line}`);
  expect(places.sort()).toEqual(["base/any.ts 1", "policy/model/any.ts 1", "policy/model/any.ts 2", "stray.ts 1"]);
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
