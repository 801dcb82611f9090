/** Runs simulations: `npm run simulate -- --help`. */
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { replay, type TraceLine } from "../model/trace.ts";
import { installModules } from "./mutate.ts";
import { mutations } from "./mutations.ts";
import type { StoreKind } from "./run.ts";

const usage = `npm run simulate -- [options]
  --seed N       the first seed (1)
  --seeds N      how many seeds, one after the other (1)
  --steps N      steps of each (2000)
  --store KIND   sqlite or postgres; otherwise each seed draws one
  --seconds N    begin no further seed after so long
  --verbose      say what happens, a line for each event that matters
  --trace FILE   write what happens to the first log, a line of JSON for each action; without trouble with power
  --replay FILE  check such a file against docs/model/append.qnt
  --mutation M   with this mistake in the product's code
  --mutations    look for every mistake, in at most 600,000 steps each; fails if one is not found
`;

const { values } = parseArgs({
  options: {
    help: { type: "boolean", default: false },
    seed: { type: "string", default: "1" },
    seeds: { type: "string", default: "1" },
    steps: { type: "string", default: "2000" },
    store: { type: "string" },
    seconds: { type: "string" },
    verbose: { type: "boolean", default: false },
    trace: { type: "string" },
    replay: { type: "string" },
    mutation: { type: "string" },
    mutations: { type: "boolean", default: false },
  },
});
const say = (text: string) => void process.stdout.write(`${text}\n`);
const maxMutantSteps = 600_000;
const stepsOfSeed = Number(values.steps);

if (values.help) say(usage);
else if (values.replay !== undefined) {
  const lines = readFileSync(values.replay, "utf8").trim().split("\n");
  const { isFine, output } = replay(lines.map((line) => JSON.parse(line) as TraceLine));
  say(isFine ? `the model allows ${lines.length} actions` : output);
  process.exitCode = isFine ? 0 : 1;
} else if (values.mutations) findMutations();
else await simulate();

/** Each in a process for itself: a module is changed before it is loaded. */
function findMutations(): void {
  let survivors = 0;
  for (const { name, area, file, store } of mutations) {
    const driver = store ?? /^stores\/(sqlite|postgres)\//.exec(file)?.[1];
    const only = driver === undefined ? [] : ["--store", driver];
    const given = ["--mutation", name, ...only, "--seeds", "1000000", "--steps", "1500"];
    const { stdout, stderr, status } = spawnSync(process.execPath, ["--no-warnings", import.meta.filename, ...given], {
      encoding: "utf8",
    });
    const isFound = status === 1 && stdout.startsWith("seed");
    if (!isFound) survivors += 1;
    say(
      `${isFound ? "found   " : "SURVIVES"} ${area}: ${name}: ${(stdout || stderr).split("\n", 2).join(" | ").slice(0, 200)}`,
    );
  }
  say(`${mutations.length} mutations, ${survivors} survive`);
  process.exitCode = survivors > 0 ? 1 : 0;
}

async function simulate(): Promise<void> {
  const mutation = mutations.find(({ name }) => name === values.mutation);
  if (values.mutation !== undefined && mutation === undefined)
    throw new Error(`no mutation is called ${values.mutation}`);
  installModules(mutation);
  const { runSeed } = await import("./run.ts");
  const [first, count] = [Number(values.seed), Number(values.seeds)];
  const beganAt = process.hrtime.bigint();
  const seconds = () => Number(process.hrtime.bigint() - beganAt) / 1e9;
  const endsAt = Number(values.seconds ?? Number.POSITIVE_INFINITY);
  // The anchor may lose its newest notes with the power: the model has none of that.
  const without = new Set(values.trace === undefined ? [] : (["power"] as const));
  let [steps, answers, failures] = [0, 0, 0];
  for (let seed = first; seed < first + count && seconds() < endsAt; seed++) {
    const ran = await runSeed({
      seed,
      steps: stepsOfSeed,
      without,
      store: values.store as StoreKind | undefined,
      isTraced: values.trace !== undefined,
      note: values.verbose ? say : () => {},
    });
    steps += ran.steps;
    if (values.trace !== undefined)
      writeFileSync(values.trace, ran.trace.map((line) => `${JSON.stringify(line)}\n`).join(""));
    answers += ran.acknowledgements;
    if (ran.violation !== undefined) {
      failures += 1;
      say(`seed ${seed}, step ${ran.steps}: ${ran.violation}`);
    }
    if (mutation !== undefined && (failures > 0 || steps > maxMutantSteps)) break;
  }
  const rate = Math.round(steps / seconds());
  say(`${steps} steps, ${answers} acknowledged, ${failures} violations, ${seconds().toFixed(1)} s, ${rate} steps/s`);
  process.exitCode = failures > 0 ? 1 : 0;
}
