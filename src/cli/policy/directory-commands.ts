/** Commands about one policy directory. They need no running service. */
import { writeFile } from "node:fs/promises";
import type { CompiledPolicy } from "../../policy/engine/bundle-engine.ts";
import { type PolicyTestReport, type PolicyTestResult, runPolicyTests } from "../../policy/engine/policy-tests.ts";
import { command } from "../frame/command.ts";
import { type Answer, Refusal } from "../frame/output.ts";
import { askingCedar, compileDirectory, readSchema, readTests } from "./directory.ts";

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
    engine.release();
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
  },
  run(context) {
    const { junit, strict } = context.options;
    return askingCedar(async (engineOptions) => {
      const { directory, engine } = await compileDirectory(context.args[0], context, engineOptions);
      try {
        const tests = await readTests(directory);
        // Without tests, nothing is shown.
        if (tests.length === 0) throw new Refusal(`${directory}: there are no expected decisions in tests/*.yaml`);
        const report = runPolicyTests(engine, tests);
        if (junit !== undefined) await writeFile(junit, toJunit(directory, report.results));
        return reportAnswer(directory, report, strict === true);
      } finally {
        engine.release();
      }
    });
  },
});

function reportAnswer(directory: string, report: PolicyTestReport, strict: boolean): Answer {
  const { results, unexercised } = report;
  const failed = results.filter(({ differences }) => differences.length > 0);
  const value = {
    directory,
    passed: results.length - failed.length,
    failed: failed.length,
    tests: results.map(({ test, differences }) => ({ name: test.name, file: test.file, line: test.line, differences })),
    unexercised: unexercised.map(({ set, id, file, line }) => ({ set, id, file, line })),
  };
  const text = [
    ...results.map(resultLine),
    ...unexercised.map((policy) => `never decides: ${describePolicy(policy)}`),
    `${value.passed} passed, ${value.failed} failed, ${unexercised.length} policies decide no test`,
  ].join("\n");
  const problems = [
    ...failed.flatMap(({ test, differences }) =>
      differences.map((difference) => `${test.file}:${test.line}: ${test.name}: ${difference}`),
    ),
    ...(strict ? unexercised.map((policy) => `${describePolicy(policy)} decides no test`) : []),
  ];
  return { value, text, problems };
}

function resultLine({ test, differences }: PolicyTestResult): string {
  return `${differences.length === 0 ? "ok    " : "FAILED"} ${test.name}`;
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
