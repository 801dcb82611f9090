import { expect, test } from "vitest";
import { originPrefixProblem } from "../../../src/ledger/tlog/log-name.ts";

const name = "0".repeat(32);

test.each<[string, string[], boolean]>([
  ["a store without logs", [], true],
  ["the prefix of its logs", [`a.example/logs/${name}`], true],
  ["another host", [`b.example/logs/${name}`], false],
  ["a part of the prefix", [`a.example/${name}`], false],
  ["more than the prefix", [`a.example/logs/more/${name}`], false],
  // From before it was looked at: both names are known to verifiers, and either may go on.
  ["one of two prefixes", [`b.example/${name}`, `a.example/logs/${name}`], true],
])("%s", (_name, origins, fits) => {
  const problem = originPrefixProblem(origins, "a.example/logs");
  if (fits) expect(problem).toBeUndefined();
  else expect(problem).toContain(`prefix ${origins[0]?.slice(0, -33)},`);
});
