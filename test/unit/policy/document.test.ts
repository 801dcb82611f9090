/** Everything that `docs/policies.md` shows: files are built, expected decisions hold, commands say what it says. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { runCommandLine } from "../../../src/cli/run.ts";
import { inputCatalogue } from "../../../src/policy/engine/inputs.ts";
import { listNames, scalarNames } from "../../../src/policy/guidance/annotations.ts";
import { loadPolicyTests } from "../../../src/policy/load/directory.ts";
import { runPolicyTests } from "../../../src/policy/tools/policy-tests.ts";
import { captureTerminal } from "../cli/terminal.ts";
import { filesOf, parseDocument, type Snippet } from "./document.ts";
import { engineOf, memoryFileSystem } from "./harness.ts";

const markdown = readFileSync(join(import.meta.dirname, "../../../docs/policies.md"), "utf8");
const parts = parseDocument(markdown);
const [base, ...cases] = parts.filter(({ headings }) => headings[0] === "Cookbook");

test("the cookbook has ten cases", () => {
  expect(cases).toHaveLength(10);
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

describe("the tutorial", () => {
  let root: string;
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), "tutorial-"));
    for (const name of Object.keys(process.env)) if (name.startsWith("SVC_")) vi.stubEnv(name, undefined);
  });
  afterEach(() => {
    vi.unstubAllEnvs();
    rmSync(root, { recursive: true });
  });

  test("each step does what the page says", async () => {
    const directory = join(root, "policies");
    const steps = parts.filter(({ headings }) => headings[0] === "Tutorial").flatMap(({ snippets }) => snippets);
    let commands = 0;
    for (const step of steps) {
      if (step.kind === "file") {
        mkdirSync(dirname(join(directory, step.path)), { recursive: true });
        writeFileSync(join(directory, step.path), step.text);
      } else if (step.kind === "console") {
        await runStep(step, directory);
        commands++;
      }
    }
    expect(commands).toBe(5);
  });
});

async function runStep(step: Extract<Snippet, { kind: "console" }>, directory: string): Promise<void> {
  expect(step.command).toMatch(/^npm run cli -- policy (check|test|explain) policies\b/);
  const words = step.command.replace("npm run cli -- ", "").split(" ");
  const { terminal, written } = captureTerminal();
  await runCommandLine(
    words.map((word) => (word === "policies" ? directory : word)),
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

test("the command that is shown and not run is one that there is", async () => {
  const shown = parts.flatMap(({ snippets }) => snippets.filter(({ kind }) => kind === "text"));
  expect(shown).toEqual([{ kind: "text", text: expect.stringMatching(/^npm run cli -- policy replay /) }]);
  const { terminal, written } = captureTerminal();
  await runCommandLine(["policy", "replay", "--help"], terminal);
  for (const option of ["--tenant", "--decision"]) expect(written.out).toContain(option);
});

test("the table of facts has every fact, and none that there is not", () => {
  const named = [...markdown.matchAll(/`((?:principal|context\.claimed)\.[a-z_.]+)`/g)].map(
    ({ 1: path }) => path ?? "",
  );
  const catalogue = inputCatalogue({});
  for (const path of named) expect(catalogue.namesAt(path), path).not.toEqual([]);
  expect(new Set(named.flatMap((path) => catalogue.namesAt(path)))).toEqual(new Set(catalogue.names));
});

test("the table of annotations has every annotation", () => {
  for (const name of [...scalarNames, ...listNames]) expect(markdown).toContain(`\`@${name}\``);
});
