/** Runs expected decisions against an engine. Pure: reads no file, keeps nothing. */
import { isDeepStrictEqual } from "node:util";
import { attributeProblems } from "../../base/caller.ts";
import { describeGuidance } from "../guidance/guidance.ts";
import { mergeObligations } from "../guidance/obligations.ts";
import type { PolicyTest } from "../load/policy-test-file.ts";
import { type Obligation, type PolicyDecision, reasonOf } from "../model/decision.ts";
import type { CompiledEngine, CompiledPolicy } from "./engine.ts";

export interface PolicyTestResult {
  readonly test: PolicyTest;
  /** One sentence for each difference; empty if the test passed. */
  readonly differences: readonly string[];
}

export interface PolicyTestReport {
  readonly results: readonly PolicyTestResult[];
  /** Policies that decided no test. */
  readonly unexercised: readonly CompiledPolicy[];
}

/** Decides every test's question. A policy is exercised if it is a reason of some test's decision. */
export function runPolicyTests(engine: CompiledEngine, tests: readonly PolicyTest[]): PolicyTestReport {
  const exercised = new Set<string>();
  const results = tests.map((test): PolicyTestResult => {
    const decision = engine.decide(test.query);
    for (const { layer, set } of engine.layersOf(test.query.caller.tenantId)) {
      for (const { id } of set.policies)
        if (decision.reasons.includes(reasonOf(layer, id))) exercised.add(`${set.name}/${id}`);
    }
    const problems = attributeProblems(engine.callerAttributes, test.query.caller.attributes);
    return { test, differences: [...problems, ...differencesOf(test, decision)] };
  });
  return {
    results,
    unexercised: engine.policies.filter(({ set, id }) => !exercised.has(`${set}/${id}`)),
  };
}

function differencesOf({ expect }: PolicyTest, decision: PolicyDecision): readonly string[] {
  const differences: string[] = [];
  const compare = (what: string, expected: unknown, actual: unknown): void => {
    if (isDeepStrictEqual(sorted(expected), sorted(actual))) return;
    differences.push(`${what}: expected ${JSON.stringify(expected)}, got ${JSON.stringify(actual)}`);
  };
  compare("allow", expect.allow, decision.allow);
  if (expect.reasons !== undefined) compare("reasons", expect.reasons, decision.reasons);
  else if (differences.length > 0) differences.push(`decided by ${decision.reasons.join(", ") || "no policy"}`);
  const guidance = describeGuidance(decision.guidance);
  for (const [name, expected] of Object.entries(expect.guidance)) compare(`guidance.${name}`, expected, guidance[name]);
  if (expect.obligations !== undefined) {
    compare("obligations", mergeObligations(expect.obligations.map(inOrder)), decision.obligations);
  }
  if (expect.alerts !== undefined) compare("alerts", expect.alerts, decision.alerts);
  return differences;
}

function inOrder({ id, parameters }: Obligation): Obligation {
  return { id, parameters: Object.fromEntries(Object.entries(parameters).sort(([a], [b]) => (a < b ? -1 : 1))) };
}

/** Lists are compared as sets. */
function sorted(value: unknown): unknown {
  return Array.isArray(value) ? [...value].sort() : value;
}

/** A report as members of an answer. */
export function reportMembers({ results, unexercised }: PolicyTestReport) {
  const failed = results.filter(({ differences }) => differences.length > 0).length;
  return {
    passed: results.length - failed,
    failed,
    tests: results.map(({ test, differences }) => ({ name: test.name, file: test.file, line: test.line, differences })),
    unexercised: unexercised.map(({ set, id, file, line }) => ({ set, id, file, line })),
  };
}
