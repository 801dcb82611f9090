/** The policy directory of a command, from the command line, else from the settings; and the commands about it alone. */
import { watch } from "node:fs";
import * as fileSystem from "node:fs/promises";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { messageOf } from "../../base/errors.ts";
import { loadPolicyDirectory } from "../../policy/check/check.ts";
import { type CompiledEngine, type CompiledPolicy, type EngineOptions, engineOf } from "../../policy/engine/engine.ts";
import {
  type PolicyTestReport,
  type PolicyTestResult,
  reportMembers,
  runPolicyTests,
} from "../../policy/engine/policy-tests.ts";
import { loadPolicyTests, readPolicyDirectory } from "../../policy/load/directory.ts";
import type { PolicyTest } from "../../policy/load/policy-test-file.ts";
import { describeProblem, excerptOf, type PolicyProblem } from "../../policy/model/problem.ts";
import { type Context, command } from "../frame/command.ts";
import { type Answer, answerOfError, print, Refusal } from "../frame/terminal.ts";
import { explanationText } from "./explanation-text.ts";
import { interruptible } from "./prover-process.ts";

/** Loads and compiles the directory. Throws a Refusal with its problems. */
export async function compileDirectory(
  argument: string | undefined,
  { load }: Pick<Context, "load">,
  engineOptions: EngineOptions = {},
) {
  const settings = load("policy");
  const directory = argument ?? load("policy_directory").policyDir;
  const loaded = await loadPolicyDirectory(directory, fileSystem, settings);
  if (loaded.problems !== undefined) throw await refusalOf(directory, loaded.problems);
  const { bundle, ignored } = loaded;
  return { directory, bundle, engine: engineOf(bundle, engineOptions), ignored };
}

/** Commands that judge or explain decisions ask Cedar, so that they find what the service compiled wrongly. */
export const byCedar: EngineOptions = { evaluator: "cedar" };

/** The schema for policies of the directory; only problems of its manifest matter. */
async function readSchema(argument: string | undefined, { load }: Pick<Context, "load">): Promise<string> {
  const settings = load("policy");
  const directory = argument ?? load("policy_directory").policyDir;
  const { bundle, problems } = await readPolicyDirectory(directory, fileSystem, settings);
  const ofManifest = problems.filter(({ file }) => bundle === undefined || file.startsWith("manifest."));
  if (ofManifest.length > 0 || bundle === undefined) throw await refusalOf(directory, ofManifest);
  return bundle.schema;
}

/** Reads the directory's tests. Throws a Refusal with their problems. */
export async function readTests(directory: string): Promise<readonly PolicyTest[]> {
  const { tests, problems } = await loadPolicyTests(directory, fileSystem);
  if (problems.length > 0) throw await refusalOf(directory, problems);
  return tests;
}

/** The problems, each with the line that it is about. */
async function refusalOf(directory: string, problems: readonly PolicyProblem[]): Promise<Refusal> {
  const lines = problems.map(async (problem) => {
    const source = await readFile(join(directory, problem.file), "utf8").catch(() => "");
    return [describeProblem(problem), excerptOf(problem, source) ?? []].flat().join("\n");
  });
  return new Refusal(await Promise.all(lines), { value: { policy_problems: problems } });
}

const directoryArgument = { "[directory]": "policy directory (default: SVC_POLICY_DIR)" };

/** Whether a service would accept a policy directory. */
export const policyCheckCommand = command({
  name: "policy check",
  says: "validate a policy directory: syntax, types, manifest and annotations",
  arguments: directoryArgument,
  options: { "--strict": "fail too if a policy applies to no request" },
  async run(context) {
    const { directory, bundle, engine, ignored } = await compileDirectory(context.args[0], context);
    // Loaded here, so that other commands start faster.
    const { policiesThatNeverApply } = await import("../../policy/diff/never-applies.ts");
    const never = policiesThatNeverApply(bundle).map(placeOf);
    const neverLines = never.map(({ id, file, line }) => `${file}:${line}: ${id} applies to no request`);
    const uncounted = engine.policies
      .filter((policy) => !policy.countsOnBehalfOf && policy.reads.some((name) => name.startsWith("on_behalf_of.")))
      .map(placeOf);
    const uncountedLines = uncounted.map(
      ({ id, file, line }) =>
        `${file}:${line}: ${id} reads context.on_behalf_of, but can permit whatever its value: it counts for callers only`,
    );
    const { policies, revision } = engine;
    const fails = context.options.strict === true;
    return {
      value: {
        directory,
        policy_revision: revision,
        policies: policies.length,
        ignored,
        never_apply: never,
        never_on_behalf_of: uncounted,
      },
      text: [
        `${directory}: ${policies.length} policies, revision ${revision}`,
        ...(ignored.length === 0 ? [] : [`not read: ${ignored.join(", ")}`]),
        ...uncountedLines,
        ...(fails ? [] : neverLines),
      ].join("\n"),
      problems: fails ? neverLines : [],
    };
  },
});

function placeOf({ id, file, line }: Pick<CompiledPolicy, "id" | "file" | "line">) {
  return { id, file, line };
}

/** The inputs that policies of a directory may read, for an editor's copy beside them. */
export const policySchemaCommand = command({
  name: "policy schema",
  says: "write the Cedar schema of a policy directory, with what its manifest declares",
  arguments: directoryArgument,
  async run(context) {
    const schema = await readSchema(context.args[0], context);
    return { value: { schema }, text: schema.trimEnd() };
  },
});

/** Whether a policy directory passes its tests. */
export const policyTestCommand = command({
  name: "policy test",
  says: "run the expected decisions in tests/*.yaml of a policy directory",
  arguments: directoryArgument,
  options: {
    "--junit <file>": "also write the results as JUnit XML",
    "--strict": "fail too if a policy decides none of the tests",
    "--filter <text>": "only tests whose name contains this text",
    "--watch": "run the tests again when a file of the directory changes, until interrupted",
  },
  run: (context) => (context.options.watch === true ? watchTests(context) : testOnce(context)),
});

type TestContext = Context<{
  readonly junit?: string;
  readonly strict?: boolean;
  readonly filter?: string;
  readonly json?: boolean;
}>;

async function testOnce(context: TestContext): Promise<Answer> {
  const { junit, filter } = context.options;
  const { directory, engine } = await compileDirectory(context.args[0], context, byCedar);
  try {
    const tests = (await readTests(directory)).filter(({ name }) => filter === undefined || name.includes(filter));
    // Without tests, nothing is shown.
    if (tests.length === 0 && filter !== undefined) throw new Refusal(`--filter: no test's name contains ${filter}`);
    if (tests.length === 0) throw new Refusal(`${directory}: there are no expected decisions in tests/*.yaml`);
    const report = runPolicyTests(engine, tests);
    const answer = reportAnswer(directory, engine, report, context.options);
    if (junit === undefined) return answer;
    const written = writeFile(junit, toJunit(directory, report.results)).then(() => []);
    const unwritten = await written.catch((error: unknown) => [`--junit: ${messageOf(error)}`]);
    return { ...answer, problems: [...answer.problems, ...unwritten] };
  } finally {
    // With --watch, the next run uses Cedar's memory again.
    engine.release();
  }
}

/** Editors write a file in several steps; the tests run once after the last. */
const settledMs = 100;

async function watchTests(context: TestContext): Promise<undefined> {
  const directory = context.args[0] ?? context.load("policy_directory").policyDir;
  const runTests = async () => {
    print(await testOnce(context).catch(answerOfError), context.options.json === true, context.terminal);
  };
  await interruptible(async (signal) => {
    let timer: NodeJS.Timeout | undefined;
    let running = Promise.resolve();
    const runNext = () => {
      running = running.then(runTests);
    };
    const watcher = watch(directory, { recursive: true, signal }, () => {
      clearTimeout(timer);
      timer = setTimeout(runNext, settledMs);
    });
    runNext();
    const failed = new Promise<never>((_, reject) => watcher.once("error", reject));
    const ended = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
    await Promise.race([failed, ended]).finally(() => clearTimeout(timer));
    await running;
  });
}

function reportAnswer(
  directory: string,
  engine: CompiledEngine,
  { results, unexercised: undecided }: PolicyTestReport,
  { strict, filter }: TestContext["options"],
): Answer & Required<Pick<Answer, "problems">> {
  // A part of the tests says nothing about policies that decide none of them.
  const unexercised = filter === undefined ? undecided : [];
  const failed = results.filter(({ differences }) => differences.length > 0);
  const value = {
    directory,
    ...reportMembers({ results, unexercised }),
  };
  const text = [
    ...results.flatMap((result) => resultLines(result, engine)),
    ...unexercised.map((policy) => `never decides: ${describePolicy(policy)}`),
    `${value.passed} passed, ${value.failed} failed${filter === undefined ? `, ${unexercised.length} policies decide no test` : ""}`,
  ].join("\n");
  const problems = [
    ...failed.flatMap(({ test, differences }) =>
      differences.map((difference) => `${test.file}:${test.line}: ${test.name}: ${difference}`),
    ),
    ...(strict === true ? unexercised.map((policy) => `${describePolicy(policy)} decides no test`) : []),
  ];
  return { value, text, problems };
}

/** A failed test says what differs, and why the policies decide as they do. */
function resultLines({ test, differences }: PolicyTestResult, engine: CompiledEngine): readonly string[] {
  if (differences.length === 0) return [`ok     ${test.name}`];
  const explained = explanationText(engine.explain(test.query)).split("\n");
  return [`FAILED ${test.name}`, ...[...differences, ...explained].map((line) => `       ${line}`)];
}

function describePolicy({ id, file, line }: CompiledPolicy): string {
  return `${file}:${line}: policy ${id}`;
}

/**
 * Results of policy tests as JUnit XML, the format of build servers: one suite, one case per test; the file is the
 * case's class.
 */
export function toJunit(suite: string, results: readonly PolicyTestResult[]): string {
  const failures = results.filter(({ differences }) => differences.length > 0).length;
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites tests="${results.length}" failures="${failures}">`,
    `  <testsuite name="${escapeXml(suite)}" tests="${results.length}" failures="${failures}" errors="0" skipped="0">`,
    ...results.map(toCase),
    "  </testsuite>",
    "</testsuites>",
    "",
  ].join("\n");
}

function toCase({ test, differences }: PolicyTestResult): string {
  const attributes = `name="${escapeXml(test.name)}" classname="${escapeXml(test.file)}" file="${escapeXml(test.file)}" line="${test.line}"`;
  if (differences.length === 0) return `    <testcase ${attributes}/>`;
  const message = escapeXml(differences[0] ?? "");
  return [
    `    <testcase ${attributes}>`,
    `      <failure message="${message}">${escapeXml(differences.join("\n"))}</failure>`,
    "    </testcase>",
  ].join("\n");
}

/** Text for XML 1.0, in an attribute or an element. Characters that XML cannot represent become U+FFFD. */
function escapeXml(text: string): string {
  return text
    .toWellFormed()
    .replace(/[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/gu, "\uFFFD")
    .replace(/[&<>"'\t\n\r]/g, (character) => `&#${character.charCodeAt(0)};`);
}

// A small policy directory to begin with.

/** A platform set with one rule, one set for all tenants, and a test of each. */
const files: Readonly<Record<string, string>> = {
  "manifest.yaml": `# Both the platform's set and the tenant's must allow a request. "*" is for tenants that are not named here.
platform: platform
tenants:
  "*": default
`,
  "platform/operations.cedar": `// What the platform allows at all. Callers are authenticated before any policy is evaluated.
@id("operations")
permit (principal, action, resource);
`,
  "platform/labels.cedar": `// A forbid that applies denies, whatever permits there are.
@id("do-not-export")
@description("Data labelled do-not-export is not made portable")
@warning("data labelled do-not-export stays in the system that holds it")
forbid (principal, action in Action::"dataOperation", resource)
when { context.claimed.labels.contains("do-not-export") };
`,
  "default/operations.cedar": `// What every tenant may do.
@id("ordinary-work")
permit (principal, action, resource);
`,
  "tests/labels.yaml": `# Expected decisions: \`policy test\` asks these questions.
- name: an ordinary record is protected
  tenant: tenant-a
  action: protect
  claimed:
    workload: { application: payroll }
    resource: { kind: customer-record }
  expect: { allow: true, reasons: [platform/operations, tenant/ordinary-work] }

- name: a record that must stay is not protected
  tenant: tenant-a
  action: protect
  claimed:
    workload: { application: payroll }
    resource: { kind: customer-record }
    labels: [do-not-export]
  expect:
    allow: false
    reasons: [platform/do-not-export]
    guidance: { warnings: [data labelled do-not-export stays in the system that holds it] }
`,
};

/** Writes into an empty or a new directory only. */
export const policyInitCommand = command({
  name: "policy init",
  says: "write a small policy directory to begin with: manifest, two sets, tests, and the schema for editors",
  arguments: { "<directory>": "new or empty directory" },
  async run(context) {
    const directory = context.args[0] as string;
    const present = await readdir(directory).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return [];
      throw new Refusal(`${directory}: cannot be read (${error.code})`);
    });
    if (present.length > 0) throw new Refusal(`${directory}: is not empty; nothing was written`);
    try {
      for (const [name, text] of Object.entries(files)) await write(join(directory, name), text);
      await write(join(directory, "schema.cedarschema"), await readSchema(directory, context));
    } catch (error) {
      if (error instanceof Refusal) throw error;
      throw new Refusal(`${directory}: ${messageOf(error)}`);
    }
    const written = [...Object.keys(files), "schema.cedarschema"];
    return {
      value: { directory, files: written },
      text: [
        ...written.map((name) => join(directory, name)),
        `next: policy check ${directory}; policy test ${directory} --watch`,
      ].join("\n"),
    };
  },
});

async function write(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, text, { flag: "wx" });
}
