/**
 * Mixed load on gateways that are killed at random, over and over, while they share one store; and at the end, is
 * everything there that was acknowledged, once, at the place that its receipt says?
 *
 * `npm run soak -- [--store sqlite|postgres] [--minutes 5] [--gateways 1] [--tenants 1] [--callers 24] [--seed 1]`.
 * The first tenant gets half of the calls. Ends with 1 where anything is not as promised.
 *
 * Callers count what was acknowledged, and nothing else: a call that the kill cut off may have been recorded or not.
 * Every call carries a resource id of its own; the record that its receipt names must hold it.
 */
import { parseArgs } from "node:util";
import { testStores } from "../test/harness/stores.ts";
import { runSoak } from "./soak-run.ts";

const { values } = parseArgs({
  options: {
    store: { type: "string", default: "sqlite" },
    minutes: { type: "string", default: "5" },
    gateways: { type: "string", default: "1" },
    tenants: { type: "string", default: "1" },
    callers: { type: "string", default: "24" },
    seed: { type: "string", default: "1" },
  },
});
const [name, startStore] = testStores.find(([each]) => each.toLowerCase().startsWith(values.store)) ?? [];
if (startStore === undefined) throw new Error("--store is sqlite or postgres");
const gateways = Number(values.gateways);
const store = await startStore();
let intact = false;
try {
  const report = await runSoak({
    store,
    gateways,
    tenants: Number(values.tenants),
    callers: Number(values.callers),
    durationMs: Number(values.minutes) * 60_000,
    // One alone dies early in its life, too; of several there should be some that serve.
    lifeMs: gateways === 1 ? { shortest: 200, longest: 3_000 } : { shortest: 1_000, longest: 15_000 },
    seed: Number(values.seed),
    onProgress: (kills, acknowledged) => {
      if (process.stderr.isTTY) process.stderr.write(`\r${kills} kills, ${acknowledged} records acknowledged `);
    },
  });
  const { kills, called, limit, records, problems } = report;
  intact = problems.length === 0 && called.acknowledged.length > 0 && kills > 0;
  const lines = [
    `${name}, ${gateways} gateways, ${values.tenants} tenants: ${kills} kills`,
    `${called.acknowledged.length} calls acknowledged, ${records} records in the logs`,
    `${called.keyed.size} idempotency keys, ${called.repeated} retries answered; ${called.reads} reads`,
    `${called.sessions} sessions; of the limited client ${limit.windows.join(", ")} let through a window, ${limit.refused} refused`,
    `${problems.length} problems`,
    ...problems.slice(0, 20).map((problem) => `  ${problem}`),
  ];
  process.stdout.write(`${lines.join("\n")}\n`);
} finally {
  if (intact) await store.stop();
  else process.stdout.write(`What is left is in ${store.folder}\n`);
}
process.exitCode = intact ? 0 : 1;
