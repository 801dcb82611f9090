/** Everything that `docs/policies.md` shows: files are built, expected decisions hold, commands say what it says. */
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { artifactProfiles } from "../../../src/base/vocabulary.ts";
import { runCommandLine } from "../../../src/cli/run.ts";
import { type DeclaredInputs, inputCatalogue } from "../../../src/policy/engine/inputs.ts";
import { listNames, scalarNames } from "../../../src/policy/guidance/annotations.ts";
import { loadPolicyTests } from "../../../src/policy/load/directory.ts";
import { parseManifest } from "../../../src/policy/load/manifest.ts";
import { runPolicyTests } from "../../../src/policy/tools/policy-tests.ts";
import { captureTerminal } from "../cli/terminal.ts";
import { filesOf, parseDocument, type Snippet } from "./document.ts";
import { engineOf, memoryFileSystem } from "./harness.ts";

const markdown = readFileSync(join(import.meta.dirname, "../../../docs/policies.md"), "utf8");
const parts = parseDocument(markdown);
const [base, ...cases] = parts.filter(({ headings }) => headings[0] === "Cookbook");

test("the cookbook has eighteen cases", () => {
  expect(cases).toHaveLength(18);
});

test.each(cases)("$headings.1", async ({ snippets }) => {
  const own = filesOf(snippets);
  const files = { ...filesOf(base?.snippets ?? []), ...own };
  const engine = await engineOf(files);
  const { tests, problems } = await loadPolicyTests("/policies", memoryFileSystem(files));
  expect(problems).toEqual([]);
  const { results, unexercised } = runPolicyTests(engine, tests);
  engine.release();
  expect(results.flatMap(({ test: { name }, differences }) => differences.map((text) => `${name}: ${text}`))).toEqual(
    [],
  );
  expect(unexercised.filter(({ file }) => Object.hasOwn(own, file)).map(({ id }) => id)).toEqual([]);
});

/** Chapters that build a directory step by step, each from nothing. */
const walks = [...new Set(parts.map(({ headings: [chapter = ""] }) => chapter))]
  .map((chapter) => ({
    chapter,
    steps: parts.filter(({ headings }) => headings[0] === chapter).flatMap(({ snippets }) => snippets),
  }))
  .filter(({ chapter, steps }) => chapter !== "Cookbook" && steps.some(({ kind }) => kind === "file"));

test("the tutorial is one of the chapters that are walked through", () => {
  expect(walks.map(({ chapter }) => chapter)).toContain("Tutorial");
});

describe("step by step", () => {
  let root: string;
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), "tutorial-"));
    for (const name of Object.keys(process.env)) if (name.startsWith("SVC_")) vi.stubEnv(name, undefined);
  });
  afterEach(() => {
    vi.unstubAllEnvs();
    rmSync(root, { recursive: true });
  });

  test.each(walks)("$chapter", async ({ steps }) => {
    const directory = join(root, "policies");
    let commands = 0;
    for (const step of steps) {
      if (step.kind === "file") {
        const file = step.path.startsWith("changed/")
          ? join(changedCopy(root), "..", step.path)
          : join(directory, step.path);
        mkdirSync(dirname(file), { recursive: true });
        writeFileSync(file, step.text);
      } else if (step.kind === "console") {
        await runStep(step, directory);
        commands++;
      }
    }
    expect(commands).toBeGreaterThan(0);
  });
});

/** A copy of the directory, which the page changes to compare the two. */
function changedCopy(root: string): string {
  const copy = join(root, "changed");
  if (!existsSync(copy)) cpSync(join(root, "policies"), copy, { recursive: true });
  return copy;
}

async function runStep(step: Extract<Snippet, { kind: "console" }>, directory: string): Promise<void> {
  expect(step.command).toMatch(/^npm run cli -- policy (check|test|explain|schema|diff) policies\b/);
  const words = step.command.replace("npm run cli -- ", "").split(" ");
  const { terminal, written } = captureTerminal();
  await runCommandLine(
    words.map((word) => (["policies", "changed"].includes(word) ? join(directory, "..", word) : word)),
    terminal,
  );
  expect(written.code, step.command).toBe(step.fails ? 1 : 0);
  const said = (written.out + written.err).replaceAll(directory, "policies").trimEnd();
  expect(said).toMatch(patternOf(step.output.join("\n")));
}

/** The text, in which `…` stands for anything. */
function patternOf(text: string): RegExp {
  const literal = (part: string) => part.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
  return new RegExp(`^${text.split("…").map(literal).join("[\\s\\S]*")}$`);
}

test("the commands that are shown and not run are ones that there are", async () => {
  const snippets = parts.flatMap((part) => part.snippets);
  const lines = snippets.flatMap((it) => (it.kind === "text" ? it.text.trim().split("\n") : []));
  const shown = lines.filter((line) => line.startsWith("npm run cli -- policy "));
  expect(shown).toHaveLength(3);
  const [build = "", ...others] = lines.filter((line) => !shown.includes(line));
  expect(others).toEqual([]);
  const [, prover = ""] = /^cargo install --locked --path (\S+)$/.exec(build) ?? [];
  expect(existsSync(join(import.meta.dirname, "../../..", prover, "Cargo.toml")), build).toBe(true);
  for (const text of shown) {
    const [, command = "", options = ""] = /^npm run cli -- policy (\w+) (.*)$/.exec(text) ?? [];
    const { terminal, written } = captureTerminal();
    await runCommandLine(["policy", command, "--help"], terminal);
    expect(written.code, text).toBe(0);
    for (const option of options.split(" ").filter((word) => word.startsWith("--")))
      expect(written.out, text).toContain(option);
  }
});

test("the table of inputs has every input, and none that there is not", () => {
  const named = [
    ...markdown.matchAll(
      /`((?:principal|context\.(?:claimed|registered|on_behalf_of))\.[a-z_.]+|context\.(?:registered|on_behalf_of))`/g,
    ),
  ].map(({ 1: path }) => path ?? "");
  const { names } = inputCatalogue({});
  const declared = inputCatalogue(declaredOnPage());
  for (const path of named) expect(declared.namesAt(path), path).not.toEqual([]);
  expect(named.flatMap((path) => declared.namesAt(path))).toEqual(expect.arrayContaining([...names]));
});

/** What any manifest on the page declares. */
function declaredOnPage(): DeclaredInputs {
  const manifests = parts
    .flatMap(({ snippets }) => snippets)
    .flatMap((it) => (it.kind === "file" && it.path === "manifest.yaml" ? [it.text] : []))
    .map((text) => parseManifest("manifest.yaml", text, artifactProfiles).manifest);
  const references = Object.assign({}, ...manifests.map(({ entities }) => entities?.references));
  return {
    callerAttributes: Object.assign({}, ...manifests.map(({ declared }) => declared.callerAttributes)),
    entities: { schemaFile: "", schema: "", files: {}, references },
  };
}

test("the table of annotations has every annotation", () => {
  for (const name of [...scalarNames, ...listNames]) expect(markdown).toContain(`\`@${name}\``);
});
