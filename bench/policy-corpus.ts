/**
 * The evaluator beside Cedar's published corpus of integration tests: `node bench/policy-corpus.ts <folder>`, in which
 * `corpus-tests.tar.gz` of https://github.com/cedar-policy/cedar-integration-tests was unpacked. Says how many requests
 * were evaluated here, and how many are left to Cedar. Ends with 1 where anything is not as the tests say, or where there
 * are none.
 */
import { readdirSync } from "node:fs";
import { parseArgs } from "node:util";
import { corpusDisagreements, noCorpusCounts } from "../test/harness/policy-corpus.ts";

const {
  positionals: [root = "."],
} = parseArgs({ allowPositionals: true });
/** Disagreements that are written out. */
const maxWritten = 20;

const files = readdirSync(root, { recursive: true, encoding: "utf8" })
  .filter((path) => /(?:^|\/)corpus-tests\/.*(?<!\.entities)\.json$/.test(path))
  .sort();
const counts = noCorpusCounts();
const disagreements = files.flatMap((file) => corpusDisagreements(root, file, counts));
for (const disagreement of disagreements.slice(0, maxWritten)) process.stdout.write(`${disagreement}\n`);
const { requests, covered, partly, left } = counts;
process.stdout.write(
  `${files.length} tests with ${requests} requests: ${covered} evaluated, ${partly} in part, ${left} left to Cedar; ` +
    `${disagreements.length} disagreements\n`,
);
process.exitCode = disagreements.length > 0 || requests === 0 ? 1 : 0;
