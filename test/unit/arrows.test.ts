/** The layers: which folder may import from which. The rules are the linter's; this shows that they hold. */
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

const root = join(import.meta.dirname, "../..");
const fixtures = join(root, "test/fixtures/arrows/src");
const biome = createRequire(import.meta.url).resolve("@biomejs/biome/bin/biome");
const layerRules = /lint\/style\/(noRestrictedImports|noRestrictedGlobals|noProcessEnv)/;

const files = typescriptFiles(fixtures);
const flagged = new Set<string>();
let directory: string;

/** Lints the fixtures with the real rules, in a place where they stand where the real folders stand. */
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "arrows-"));
  cpSync(fixtures, join(directory, "src"), { recursive: true });
  cpSync(join(root, "biome.json"), join(directory, "biome.json"));
  const options = ["--vcs-enabled=false", "--reporter=github", "--max-diagnostics=none"];
  const { stdout } = spawnSync(process.execPath, [biome, "lint", ...options], { cwd: directory, encoding: "utf8" });
  for (const line of stdout.split("\n")) {
    const match = /^::error title=([^,]+),file=(?:.*\/)?src\/([^,]+),line=(\d+),/.exec(line);
    if (match !== null && layerRules.test(match[1] as string)) flagged.add(`${match[2]}:${match[3]}`);
  }
});

afterAll(() => rmSync(directory, { recursive: true }));

describe.each(files)("%s", (file) => {
  const [header = "", ...lines] = readFileSync(join(fixtures, file), "utf8").trimEnd().split("\n");
  const isForbidden = header.includes("every line");

  test.each(lines.map((code, index) => ({ code, place: `${file}:${index + 2}` })))(
    `$code is ${isForbidden ? "refused" : "allowed"}`,
    ({ place }) => expect(flagged.has(place)).toBe(isForbidden),
  );
});

test("every folder says of every other whether it may import from it", () => {
  const folders = readdirSync(join(root, "src"), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name);
  for (const from of folders) {
    const said = files
      .filter((file) => file.startsWith(`${from}/`))
      .map((file) => readFileSync(join(fixtures, file), "utf8"))
      .join("\n");
    for (const to of [...folders.filter((folder) => folder !== from), "../gen"]) {
      expect(said, `${from} → ${to}`).toContain(`"../${to}/`);
    }
  }
});

test("no type is imported past the rules, which do not see import types", () => {
  for (const file of typescriptFiles(join(root, "src"))) {
    const source = readFileSync(join(root, "src", file), "utf8");
    expect(source, file).not.toMatch(/(?<!await )\bimport\("\.\.\//);
  }
});

test("the normal lint leaves the fixtures alone", { timeout: 120_000 }, () => {
  const options = ["check", "--vcs-enabled=false", "--no-errors-on-unmatched", "test/fixtures/arrows"];
  expect(() => execFileSync(process.execPath, [biome, ...options], { cwd: root, stdio: "pipe" })).not.toThrow();
});

function typescriptFiles(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts"))
    .map((file) => file.replaceAll("\\", "/"))
    .sort();
}
