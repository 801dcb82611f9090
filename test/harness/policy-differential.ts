/** Policies and requests at random with what Cedar makes of them, and whether an evaluator makes the same of them. */
import { type PolicyJson, policyToJson } from "@cedar-policy/cedar-wasm/nodejs";
import { scopeActions } from "../../src/policy/check/reads.ts";
import * as compiledSet from "../../src/policy/evaluate/compiled-set.ts";
import { type Applying, PreparedSet } from "../../src/policy/evaluate/prepared-set.ts";
import * as program from "../../src/policy/evaluate/program.ts";
import * as scene from "../../src/policy/evaluate/scene.ts";
import * as values from "../../src/policy/evaluate/values.ts";
import type { PolicyAction } from "../../src/policy/model/decision.ts";
import { randomOf } from "./fuzz/random.ts";
import { Pairs } from "./policy-pairs.ts";

const policiesEach = 20;
const requestsEach = 25;

interface Policy {
  readonly text: string;
  readonly tree: PolicyJson;
  readonly actions: ReadonlySet<PolicyAction>;
}

export type Does = "applies" | "fails" | "nothing" | "left to Cedar";

type DifferentialCase = ReturnType<typeof caseOf>;

/** The case that a seed makes: a set, and what each of its policies does with each request as Cedar has it. */
export function caseOf(seed: number) {
  const pairs = new Pairs(randomOf(seed, 0));
  const policies = Array.from({ length: policiesEach }, (): Policy => {
    const text = pairs.policy();
    const parsed = policyToJson(text);
    if (parsed.type === "failure") throw new Error(`${text}: ${parsed.errors[0]?.message}`);
    return { text, tree: parsed.json, actions: scopeActions(program.programOf(parsed.json)) };
  });
  // Of one effect, Cedar names every policy that applies, whatever the others say.
  const parts = ["permit", "forbid"].map((effect) => {
    const positions = [...policies.keys()].filter((position) => policies[position]?.tree.effect === effect);
    return { positions, set: new PreparedSet(positions.map((position) => policies[position]?.text as string)) };
  });
  const asked = Array.from({ length: requestsEach }, () => {
    const request = pairs.request();
    const does: Does[] = policies.map(() => "nothing");
    for (const { positions, set } of parts) {
      const { permits, forbids, failed } = set.diagnose(request) as Applying;
      for (const index of [...permits, ...forbids]) does[positions[index] as number] = "applies";
      for (const index of failed) does[positions[index] as number] = "fails";
    }
    return { request, does };
  });
  for (const { set } of parts) set.release();
  return { policies, asked };
}

/** The modules of an evaluator. */
export const evaluator = { compiledSet, program, scene, values };

export const noCounts = () => ({ pairs: 0, applied: 0, failed: 0, leftToCedar: 0 });

/** The first policy of which the evaluator says something else than Cedar. */
export function disagreementOn(
  { policies, asked }: DifferentialCase,
  modules: typeof evaluator,
  counts: ReturnType<typeof noCounts>,
) {
  const paths = new modules.scene.Paths();
  const compilable = policies.map(({ tree, actions }) => ({
    actions,
    program: JSON.stringify(modules.program.programOf(tree)),
  }));
  const set = new modules.compiledSet.CompiledSet(compilable, modules.compiledSet.setIndexOf(compilable), paths);
  for (const { request, does } of asked) {
    const said: Does[] = policies.map(() => "nothing");
    const note = (positions: readonly number[], what: Does) => {
      for (const position of positions) said[position] = what;
    };
    const { permits, forbids, failed, unknown } = set.applying(
      new modules.scene.Scene(request, paths),
      request.action.id,
    );
    note([...permits, ...forbids], "applies");
    note(failed, "fails");
    note(unknown, "left to Cedar");
    counts.pairs += policies.length;
    counts.applied += permits.length + forbids.length;
    counts.failed += failed.length;
    counts.leftToCedar += unknown.length;
    const at = said.findIndex((what, position) => what !== "left to Cedar" && what !== does[position]);
    if (at === -1) continue;
    return { policy: policies[at]?.text as string, cedar: does[at] as Does, compiled: said[at] as Does, request };
  }
  return undefined;
}
