/** The policy directory that a command is about: from the command line, else from the settings. */
import * as fileSystem from "node:fs/promises";
import type { CompiledEngine } from "../../policy/engine/bundle-engine.ts";
import { compilePolicyBundle, type EngineOptions } from "../../policy/engine/engine.ts";
import type { PolicyBundle } from "../../policy/load/bundle.ts";
import { loadPolicyDirectory, loadPolicyTests, readPolicyDirectory } from "../../policy/load/directory.ts";
import { describeProblem, type PolicyProblem } from "../../policy/load/problem.ts";
import type { PolicyTest } from "../../policy/tools/policy-test-file.ts";
import { type CommonOptions, loadOrReport } from "../options.ts";
import type { Output } from "../output.ts";

export interface CompiledDirectory {
  readonly directory: string;
  readonly bundle: PolicyBundle;
  readonly engine: CompiledEngine;
  /** Paths of what the directory holds besides policies, and is harmless. */
  readonly ignored: readonly string[];
}

/** Loads and compiles the directory; where it is not good, reports why and returns undefined. */
export async function compileOrReport(
  argument: string | undefined,
  options: CommonOptions,
  output: Output,
  engineOptions: EngineOptions = {},
): Promise<CompiledDirectory | undefined> {
  const settings = loadOrReport("policy", options, output);
  if (settings === undefined) return undefined;
  const directory = argument ?? loadOrReport("policy_directory", options, output)?.policyDir;
  if (directory === undefined) return undefined;
  const loaded = await loadPolicyDirectory(directory, fileSystem, settings);
  if (loaded.problems !== undefined) return reportProblems(loaded.problems, output);
  const compiled = compilePolicyBundle(loaded.bundle, engineOptions);
  return compiled.problems === undefined
    ? { directory, bundle: loaded.bundle, engine: compiled.engine, ignored: loaded.ignored }
    : reportProblems(compiled.problems, output);
}

/**
 * Has Cedar asked as well, whose answer counts. Where it is not that of the compiled policies, what the command then says
 * through this output is a failure that names the difference.
 */
export function askingCedar(output: Output): { readonly output: Output; readonly engineOptions: EngineOptions } {
  const disagreements = new Set<string>();
  return {
    engineOptions: { evaluator: "both", onDisagreement: (found) => disagreements.add(found) },
    output: {
      succeed(value, text) {
        if (disagreements.size === 0) output.succeed(value, text);
        else output.fail([...disagreements], value, text);
      },
      fail: (problems, value, text) => output.fail([...problems, ...disagreements], value, text),
    },
  };
}

/** The schema for policies of the directory, whatever else is wrong with it than its manifest. */
export async function readSchemaOrReport(
  argument: string | undefined,
  options: CommonOptions,
  output: Output,
): Promise<string | undefined> {
  const settings = loadOrReport("policy", options, output);
  if (settings === undefined) return undefined;
  const directory = argument ?? loadOrReport("policy_directory", options, output)?.policyDir;
  if (directory === undefined) return undefined;
  const { bundle, problems } = await readPolicyDirectory(directory, fileSystem, settings);
  const ofManifest = problems.filter(({ file }) => bundle === undefined || file.startsWith("manifest."));
  return ofManifest.length > 0 ? reportProblems(ofManifest, output) : bundle?.schema;
}

/** Reads the directory's expected decisions; where they are not good, reports why and returns undefined. */
export async function readTestsOrReport(directory: string, output: Output): Promise<readonly PolicyTest[] | undefined> {
  const { tests, problems } = await loadPolicyTests(directory, fileSystem);
  return problems.length > 0 ? reportProblems(problems, output) : tests;
}

function reportProblems(problems: readonly PolicyProblem[], output: Output): undefined {
  output.fail(problems.map(describeProblem), { policy_problems: problems });
}
