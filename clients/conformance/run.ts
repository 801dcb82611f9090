/** `node clients/conformance/run.ts [--case PATTERN] [--except PATTERN]… [--list] -- DRIVER COMMAND…`: which cases does a client pass? */
import { parseArgs } from "node:util";
import { cases } from "./cases/index.ts";
import { runCases } from "./suite.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    case: { type: "string", default: "" },
    except: { type: "string", multiple: true, default: [] },
    list: { type: "boolean", default: false },
  },
});

if (values.list) {
  for (const { name, says } of cases) process.stdout.write(`${name}: ${says}\n`);
} else if (positionals.length === 0) {
  process.stderr.write("usage: run.ts [--case PATTERN] [--except PATTERN]... [--list] -- DRIVER COMMAND…\n");
  process.exitCode = 2;
} else {
  const results = await runCases(
    positionals,
    { pattern: values.case, except: values.except },
    ({ name, says, problem, tookMs }) => {
      if (problem === undefined) process.stdout.write(`ok   ${name} (${Math.round(tookMs)} ms)\n`);
      else process.stdout.write(`FAIL ${name}\n    ${says}\n    ${problem}\n`);
    },
  );
  const failures = results.filter(({ problem }) => problem !== undefined);
  process.stdout.write(`${results.length - failures.length} of ${results.length} passed\n`);
  if (failures.length > 0 || results.length === 0) process.exitCode = 1;
}
