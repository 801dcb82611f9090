/**
 * The evaluator beside Cedar on policies and requests at random: `node bench/policy-differential.ts [--pairs 1000000]
 * [--seed 1]`. A pair is a policy and a request. Ends with 1 at the first disagreement.
 */
import { parseArgs } from "node:util";
import { caseOf, disagreementOn, evaluator, noCounts } from "../test/harness/policy-differential.ts";

const { values } = parseArgs({
  options: { pairs: { type: "string", default: "1000000" }, seed: { type: "string", default: "1" } },
});
const counts = noCounts();
const beganMs = performance.now();
for (let seed = Number(values.seed); counts.pairs < Number(values.pairs); seed++) {
  const disagreement = disagreementOn(caseOf(seed), evaluator, counts);
  if (disagreement === undefined) continue;
  process.stdout.write(`seed ${seed}: ${JSON.stringify(disagreement, undefined, 1)}\n`);
  process.exitCode = 1;
  break;
}
process.stdout.write(`${JSON.stringify(counts)} in ${((performance.now() - beganMs) / 1_000).toFixed(0)} s\n`);
