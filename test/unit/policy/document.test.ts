/** Everything that the pages about policies show: files are built, expected decisions hold, commands say what is shown. */
import { cpSync, existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { runPolicyTests } from "../../../src/policy/engine/policy-tests.ts";
import { listNames, scalarNames } from "../../../src/policy/guidance/annotations.ts";
import { loadPolicyTests } from "../../../src/policy/load/directory.ts";
import { directory, eachInDirectory, fileOf, run } from "../cli/surroundings.ts";
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
  eachInDirectory();

  test.each(walks)("$page", async ({ steps }) => {
    let commands = 0;
    for (const step of steps) {
      if (step.kind === "file") {
        const isChanged = step.path.startsWith("changed/");
        if (isChanged) copyOnce();
        fileOf(isChanged ? step.path : `policies/${step.path}`, step.text, 0o644);
      } else if (step.kind === "console") {
        await runStep(step);
        commands++;
      }
    }
    expect(commands).toBeGreaterThan(0);
  });
});

/** A copy of the directory, which the page changes to compare the two. */
function copyOnce(): void {
  const copy = join(directory, "changed");
  if (!existsSync(copy)) cpSync(join(directory, "policies"), copy, { recursive: true });
}

async function runStep(step: Extract<Snippet, { kind: "console" }>): Promise<void> {
  expect(step.command).toMatch(/^npm run cli -- policy (check|test|explain|schema|diff) policies\b/);
  const words = step.command.replace("npm run cli -- ", "").split(" ");
  const written = await run(
    ...words.map((word) => (["policies", "changed"].includes(word) ? join(directory, word) : word)),
  );
  expect(written.code, step.command).toBe(step.fails ? 1 : 0);
  const said = (written.out + written.err).replaceAll(join(directory, "policies"), "policies").trimEnd();
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
  expect(results.map(({ differences }) => differences)).toEqual([[]]);
});

test("the reference lists every annotation", () => {
  const reference = readPage("reference/policies.md");
  for (const name of [...scalarNames, ...listNames]) expect(reference).toContain(`\`@${name}\``);
});
