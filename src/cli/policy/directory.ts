/** The policy directory of a command: from the command line, else from the settings. */
import * as fileSystem from "node:fs/promises";
import { loadPolicyDirectory } from "../../policy/check/check.ts";
import type { CompiledEngine } from "../../policy/engine/bundle-engine.ts";
import { compilePolicyBundle, type EngineOptions } from "../../policy/engine/engine.ts";
import type { PolicyBundle } from "../../policy/load/bundle.ts";
import { loadPolicyTests, readPolicyDirectory } from "../../policy/load/directory.ts";
import type { PolicyTest } from "../../policy/load/policy-test-file.ts";
import { describeProblem, type PolicyProblem } from "../../policy/model/problem.ts";
import type { Context } from "../frame/command.ts";
import { type Answer, Refusal } from "../frame/output.ts";

export interface CompiledDirectory {
  readonly directory: string;
  readonly bundle: PolicyBundle;
  readonly engine: CompiledEngine;
  /** Paths of harmless entries in the directory besides policies. */
  readonly ignored: readonly string[];
}

/** Loads and compiles the directory. Throws a Refusal with its problems. */
export async function compileDirectory(
  argument: string | undefined,
  { load }: Pick<Context, "load">,
  engineOptions: EngineOptions = {},
): Promise<CompiledDirectory> {
  const settings = load("policy");
  const directory = argument ?? load("policy_directory").policyDir;
  const loaded = await loadPolicyDirectory(directory, fileSystem, settings);
  if (loaded.problems !== undefined) throw refusalOf(loaded.problems);
  const compiled = compilePolicyBundle(loaded.bundle, engineOptions);
  if (compiled.problems !== undefined) throw refusalOf(compiled.problems);
  return { directory, bundle: loaded.bundle, engine: compiled.engine, ignored: loaded.ignored };
}

/**
 * Also evaluates with Cedar, whose answer counts. If the compiled policies' answer differs, the command fails with a
 * problem that names the difference.
 */
export async function askingCedar(work: (engineOptions: EngineOptions) => Promise<Answer>): Promise<Answer> {
  const disagreements = new Set<string>();
  const onDisagreement = (found: string) => disagreements.add(found);
  const answer = await work({ evaluator: "both", onDisagreement }).catch((error: unknown) => {
    if (error instanceof Refusal) return error.answer;
    throw error;
  });
  return { ...answer, problems: [...(answer.problems ?? []), ...disagreements] };
}

/** The schema for policies of the directory; only problems of its manifest matter. */
export async function readSchema(argument: string | undefined, { load }: Pick<Context, "load">): Promise<string> {
  const settings = load("policy");
  const directory = argument ?? load("policy_directory").policyDir;
  const { bundle, problems } = await readPolicyDirectory(directory, fileSystem, settings);
  const ofManifest = problems.filter(({ file }) => bundle === undefined || file.startsWith("manifest."));
  if (ofManifest.length > 0 || bundle === undefined) throw refusalOf(ofManifest);
  return bundle.schema;
}

/** Reads the directory's tests. Throws a Refusal with their problems. */
export async function readTests(directory: string): Promise<readonly PolicyTest[]> {
  const { tests, problems } = await loadPolicyTests(directory, fileSystem);
  if (problems.length > 0) throw refusalOf(problems);
  return tests;
}

function refusalOf(problems: readonly PolicyProblem[]): Refusal {
  return new Refusal(problems.map(describeProblem), { value: { policy_problems: problems } });
}
