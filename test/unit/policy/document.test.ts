/** Everything that the pages about policies show: files are built, expected decisions hold, commands say what is shown. */
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { runCommandLine } from "../../../src/cli/run.ts";
import { runPolicyTests } from "../../../src/policy/engine/policy-tests.ts";
import { listNames, scalarNames } from "../../../src/policy/guidance/annotations.ts";
import { loadPolicyTests } from "../../../src/policy/load/directory.ts";
import { captureTerminal } from "../cli/terminal.ts";
import { filesOf, parseDocument, readCookbook, readPage, type Snippet } from "./document.ts";
import { engineOf, memoryFileSystem } from "./harness.ts";

const { base, cases } = readCookbook();

test("the cookbook has eighteen cases", () => {
  expect(cases).toHaveLength(18);
});

test.each(cases)("$headings.1", async ({ snippets }) => {
  const own = filesOf(snippets);
  const files = { ...base, ...own };
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

/** Pages that build a directory step by step, each from nothing. */
const walks = [
  "tutorial/first-policy",
  "how-to/use-caller-attributes",
  "how-to/use-entities",
  "how-to/use-obligations",
].map((page) => ({ page, steps: parseDocument(readPage(`${page}.md`)).flatMap(({ snippets }) => snippets) }));

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

  test.each(walks)("$page", async ({ steps }) => {
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

test.each([
  [["default"], false],
  [["platform"], false],
  [["default", "platform"], true],
])("the policies for users of a key access service, in %j, permit a reader: %j", async (sets, allow) => {
  const [, policies = ""] = /^ *```cedar\n(.*?)^ *```/ms.exec(readPage("how-to/decide-for-a-kas.md")) ?? [];
  const test = {
    name: "a reader",
    tenant: "tenant-a",
    action: "unwrap",
    claimed: { workload: { application: "kas" }, resource: { kind: "tdf" } },
    on_behalf_of: { type: "principal", id: "alice", property_values: ["team=readers"] },
    understood_obligations: ["drm.watermark"],
    expect: { allow, obligations: allow ? [{ id: "drm.watermark", parameters: {} }] : [] },
  };
  const own = Object.fromEntries(sets.map((set) => [`${set}/kas.cedar`, policies]));
  const files = { ...base, ...own, "tests/kas.yaml": JSON.stringify([test]) };
  const engine = await engineOf(files);
  const { tests, problems } = await loadPolicyTests("/policies", memoryFileSystem(files));
  expect(problems).toEqual([]);
  const { results } = runPolicyTests(engine, tests);
  engine.release();
  expect(results.map(({ differences }) => differences)).toEqual([[]]);
});

test("commands that are shown and not run exist, with their options", async () => {
  const pages = ["how-to/roll-out-policies", "how-to/explain-a-refusal"].map((page) => readPage(`${page}.md`));
  const lines = pages.flatMap((page) =>
    [...page.matchAll(/^ *```text\n([\s\S]*?)^ *```$/gm)].flatMap(([, text]) => (text ?? "").trim().split("\n")),
  );
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

test("the reference lists every annotation", () => {
  const reference = readPage("reference/policies.md");
  for (const name of [...scalarNames, ...listNames]) expect(reference).toContain(`\`@${name}\``);
});
