/**
 * Compares the evaluator with Cedar on random policies and requests: `node bench/policy-differential.ts [--pairs
 * 1000000] [--seed 1]`. A pair is a policy and a request. Exits with 1 at the first disagreement.
 *
 * With `--corpus <folder>`: compares with Cedar's published corpus of integration tests instead: `corpus-tests.tar.gz`
 * of https://github.com/cedar-policy/cedar-integration-tests, unpacked there. Prints how many requests were evaluated
 * here, and how many are left to Cedar. Exits with 1 if a result differs from the tests, or if there are none.
 */
import { readdirSync } from "node:fs";
import { corpusDisagreements, noCorpusCounts } from "../test/harness/policy-corpus.ts";
import { caseOf, disagreementOn, evaluator, noCounts } from "../test/harness/policy-differential.ts";
import { readOptions } from "./run.ts";

const options = readOptions({ pairs: 1_000_000, seed: 1, corpus: "" });
/** Maximum number of disagreements with the corpus that are printed. */
const maxWritten = 20;
const print = (line: string) => void process.stdout.write(`${line}\n`);

/** Whether both agree on all pairs. */
function agreesAtRandom(): boolean {
  const counts = noCounts();
  const beganMs = performance.now();
  let agrees = true;
  for (let seed = options.seed; agrees && counts.pairs < options.pairs; seed++) {
    const disagreement = disagreementOn(caseOf(seed), evaluator, counts);
    agrees = disagreement === undefined;
    if (!agrees) print(`seed ${seed}: ${JSON.stringify(disagreement, undefined, 1)}`);
  }
  print(`${JSON.stringify(counts)} in ${((performance.now() - beganMs) / 1_000).toFixed(0)} s`);
  return agrees;
}

function agreesWithCorpus(root: string): boolean {
  const files = readdirSync(root, { recursive: true, encoding: "utf8" })
    .filter((path) => /(?:^|\/)corpus-tests\/.*(?<!\.entities)\.json$/.test(path))
    .sort();
  const counts = noCorpusCounts();
  const disagreements = files.flatMap((file) => corpusDisagreements(root, file, counts));
  for (const disagreement of disagreements.slice(0, maxWritten)) print(disagreement);
  const { requests, covered, partly, left } = counts;
  print(
    `${files.length} tests with ${requests} requests: ${covered} evaluated, ${partly} in part, ${left} left to Cedar`,
  );
  print(`${disagreements.length} disagreements`);
  return disagreements.length === 0 && requests > 0;
}

process.exitCode = (options.corpus === "" ? agreesAtRandom() : agreesWithCorpus(options.corpus)) ? 0 : 1;
