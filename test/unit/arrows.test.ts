/** The rooms: which may import from which. The rules are `scripts/arrows.ts`; this shows that they hold. */
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, posix } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { breaches, rooms } from "../../scripts/arrows.ts";

const root = join(import.meta.dirname, "../..");
const fixtures = join(root, "test/fixtures/arrows");
const biome = createRequire(import.meta.url).resolve("@biomejs/biome/bin/biome");

/** Files whose every line breaks a rule, or none does: their first line says which. */
const filesBelow = (folder: string) =>
  readdirSync(join(fixtures, "src", folder), { recursive: true, encoding: "utf8" }).map((file) =>
    posix.join(folder, file.replaceAll("\\", "/")),
  );
const files = [...filesBelow(""), ...filesBelow("../clients")]
  .filter((file) => /(^(main|runtime|compile-cache)|\/(allowed|forbidden|load))\.[jt]s$/.test(file))
  .sort();
const textOf = (file: string) => readFileSync(join(fixtures, "src", file), "utf8");
const found = breaches(fixtures);
const flagged = new Set(found.map(({ file, line }) => `${file}:${line}`));
let directory: string;

/** The process is kept out by the linter, which knows a global from a name: run in a place like the real one. */
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "arrows-"));
  cpSync(join(fixtures, "src"), join(directory, "src"), { recursive: true });
  cpSync(join(root, "biome.json"), join(directory, "biome.json"));
  const options = ["--vcs-enabled=false", "--reporter=github", "--max-diagnostics=none"];
  const { stdout } = spawnSync(process.execPath, [biome, "lint", ...options], { cwd: directory, encoding: "utf8" });
  for (const line of stdout.split("\n")) {
    const match = /^::error title=([^,]+),file=(?:.*\/)?src\/([^,]+),line=(\d+),/.exec(line);
    const isRule = match !== null && /lint\/style\/(noRestrictedGlobals|noProcessEnv)/.test(match[1] as string);
    if (isRule) flagged.add(`${match[2]}:${match[3]}`);
  }
});

afterAll(() => rmSync(directory, { recursive: true }));

describe.each(files)("%s", (file) => {
  const [header = "", ...lines] = textOf(file).trimEnd().split("\n");
  const isForbidden = header.includes("every line");

  test.each(lines.map((code, index) => ({ code, place: `${file}:${index + 2}` })))(
    `$code is ${isForbidden ? "refused" : "allowed"}`,
    ({ place }) => expect(flagged.has(place)).toBe(isForbidden),
  );
});

test("every room says of every other whether it may import from it", () => {
  const entries = readdirSync(join(root, "src")).filter((entry) => /^[\w-]+(\.[jt]s)?$/.test(entry));
  expect(Object.keys(rooms)).toEqual(expect.arrayContaining(entries));
  for (const from of Object.keys(rooms)) {
    const folder = /\.[jt]s$/.test(from) ? "" : from;
    const own = files.filter((file) => file === from || (folder !== "" && posix.dirname(file) === folder));
    const said = own.map(textOf).join("\n");
    const others = [...Object.keys(rooms), "../gen"].filter((to) => to !== from && !to.startsWith(`${from}/`));
    const isSaid = (to: string) => {
      const path = posix.relative(folder, to);
      return said.includes(`"${path.startsWith(".") ? path : `./${path}`}${/\.[jt]s$/.test(to) ? '"' : "/"}`);
    };
    // Of a file that knows some rooms the fixture has the others only: it cannot be two files of one name.
    const known = folder === "" ? (rooms[from]?.knows ?? []) : [];
    for (const to of others.filter((to) => !known.includes(to))) expect(isSaid(to), `${from} → ${to}`).toBe(true);
  }
});

test("a file belongs to a room", () => {
  expect(found).toContainEqual({ file: "stray.ts", line: 1, problem: "belongs to no room" });
});

test("imports do not go round in a circle, of types neither", () => {
  // Fixtures of rooms that are one file each, and must not import each other, are in circles as well.
  const circles = found.filter(({ file, problem }) => problem.startsWith("circle") && file.includes("/"));
  expect(circles).toEqual([
    { file: "base/circle/one.ts", line: 2, problem: circleOf("one", "two") },
    { file: "base/circle/two.ts", line: 1, problem: circleOf("two", "one") },
  ]);
});

test("the source keeps to all of it", () => {
  expect(breaches(root)).toEqual([]);
});

test("the normal lint leaves the fixtures alone", { timeout: 120_000 }, () => {
  const options = ["check", "--vcs-enabled=false", "--no-errors-on-unmatched", "test/fixtures/arrows"];
  expect(() => execFileSync(process.execPath, [biome, ...options], { cwd: root, stdio: "pipe" })).not.toThrow();
});

function circleOf(one: string, other: string): string {
  return `circle: ${[one, other, one].map((name) => `base/circle/${name}.ts`).join(" → ")}`;
}
