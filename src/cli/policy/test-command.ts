import { writeFile } from "node:fs/promises";
import type { Command } from "commander";
import type { CompiledPolicy } from "../../policy/engine/bundle-engine.ts";
import { type PolicyTestReport, type PolicyTestResult, runPolicyTests } from "../../policy/tools/policy-tests.ts";
import { type CommonOptions, withCommonOptions } from "../options.ts";
import { createOutput, type Output } from "../output.ts";
import type { Terminal } from "../terminal.ts";
import { askingCedar, compileOrReport, readTestsOrReport } from "./directory.ts";
import { toJunit } from "./junit.ts";

interface TestOptions extends CommonOptions {
  readonly junit?: string;
  readonly strict?: boolean;
}

/** `policy test`: whether a policy directory decides as its expected decisions say. */
export function addPolicyTestCommand(policy: Command, terminal: Terminal): void {
  withCommonOptions(policy.command("test"))
    .argument("[directory]", "policy directory (default: SVC_POLICY_DIR)")
    .option("--junit <file>", "also write the results as JUnit XML")
    .option("--strict", "fail too where a policy decides none of the tests")
    .description("run the expected decisions in tests/*.yaml of a policy directory")
    .action(async (argument: string | undefined, options: TestOptions) => {
      const { output, engineOptions } = askingCedar(createOutput(options.json === true, terminal));
      const compiled = await compileOrReport(argument, options, output, engineOptions);
      if (compiled === undefined) return;
      const { directory, engine } = compiled;
      try {
        const tests = await readTestsOrReport(directory, output);
        if (tests === undefined) return;
        // Nothing tested is nothing shown.
        if (tests.length === 0) return output.fail([`${directory}: there are no expected decisions in tests/*.yaml`]);
        const report = runPolicyTests(engine, tests);
        if (options.junit !== undefined) await writeFile(options.junit, toJunit(directory, report.results));
        printReport(directory, report, options.strict === true, output);
      } finally {
        engine.release();
      }
    });
}

function printReport(directory: string, report: PolicyTestReport, strict: boolean, output: Output): void {
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
  if (problems.length === 0) output.succeed(value, text);
  else output.fail(problems, value, text);
}

function resultLine({ test, differences }: PolicyTestResult): string {
  return `${differences.length === 0 ? "ok    " : "FAILED"} ${test.name}`;
}

function describePolicy({ id, file, line }: CompiledPolicy): string {
  return `${file}:${line}: policy ${id}`;
}
