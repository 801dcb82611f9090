/**
 * Mixed load on gateways that share one store and are repeatedly killed at random; at the end, is every acknowledged
 * record there, exactly once, at the place in its receipt?
 *
 * `npm run soak -- [--store sqlite|postgres] [--minutes 5] [--gateways 1] [--tenants 1] [--callers 24] [--seed 1]`. The
 * first tenant gets half of the calls. Exits with 1 if a promise was broken.
 *
 * Callers count only acknowledged calls: one that the kill interrupted may have been recorded or not. Every call
 * carries its own resource id, which the record in its receipt must hold.
 *
 * `npm run soak -- --fuzz [--connections 500000] [--messages 10000000] [--minutes 30] [--seed 1] [--from 0] [--workers
 * 2]`: fuzzes every port instead, until both numbers are reached. The same seed sends the same again; `--from` begins
 * at a connection that a run has named.
 */
import { testStores } from "../test/harness/stores.ts";
import { runFuzz } from "./fuzz.ts";
import { readOptions } from "./run.ts";
import { runSoak } from "./soak-run.ts";

const values = readOptions({
  ...{ store: "sqlite", minutes: "", gateways: 1, tenants: 1, callers: 24, seed: 1 },
  ...{ fuzz: false, connections: 500_000, messages: 10_000_000, from: 0, workers: 2 },
});
process.exitCode = (await (values.fuzz ? fuzz() : soak())) ? 0 : 1;

async function soak(): Promise<boolean> {
  const [name, startStore] = testStores.find(([each]) => each.toLowerCase().startsWith(values.store)) ?? [];
  if (startStore === undefined) throw new Error("--store is sqlite or postgres");
  const { gateways } = values;
  const store = await startStore();
  let intact = false;
  try {
    const report = await runSoak({
      store,
      gateways,
      tenants: values.tenants,
      callers: values.callers,
      durationMs: Number(values.minutes || 5) * 60_000,
      // A single gateway also dies early in its life; of several, some should be serving.
      lifeMs: gateways === 1 ? { shortest: 200, longest: 3_000 } : { shortest: 1_000, longest: 15_000 },
      seed: values.seed,
      onProgress: (kills, acknowledged) => {
        if (process.stderr.isTTY) process.stderr.write(`\r${kills} kills, ${acknowledged} records acknowledged `);
      },
    });
    const { kills, called, records, problems } = report;
    intact = problems.length === 0 && called.acknowledged.length > 0 && kills > 0;
    const lines = [
      `${name}, ${gateways} gateways, ${values.tenants} tenants: ${kills} kills`,
      `${called.acknowledged.length} calls acknowledged, ${records} records in the logs`,
      `${called.keyed.size} idempotency keys, ${called.repeated} retries answered; ${called.reads} reads`,
      `${called.sessions} sessions`,
      `${problems.length} problems`,
      ...problems.slice(0, 20).map((problem) => `  ${problem}`),
    ];
    process.stdout.write(`${lines.join("\n")}\n`);
  } finally {
    if (intact) await store.stop();
    else process.stdout.write(`What is left is in ${store.folder}\n`);
  }
  return intact;
}

async function fuzz(): Promise<boolean> {
  const { connections, messages } = values;
  const report = await runFuzz({
    seed: values.seed,
    from: values.from,
    workers: values.workers,
    connections,
    messages,
    minutes: Number(values.minutes || 30),
    onProgress: (counts, residentMiB) => {
      if (process.stderr.isTTY)
        process.stderr.write(
          `\r${counts.connections} connections, ${counts.requests + counts.frames} messages, ${residentMiB.join(" and ")} MiB `,
        );
    },
  });
  const { counts, seconds, problems } = report;
  const isReached = counts.connections >= connections && counts.requests + counts.frames >= messages;
  const lines = [
    `seed ${values.seed}, connections ${values.from} to ${report.upTo}, in ${Math.round(seconds)} s`,
    `${counts.connections} connections: ${counts.http1} over HTTP/1.1, ${counts.h2c} over h2c, ${counts.tls} to the ports with TLS, ${counts.silent} that say nothing`,
    `${counts.requests} requests and ${counts.frames} frames, ${Math.round(counts.bytes / 2 ** 20)} MiB`,
    `${report.answered} good calls answered, the slowest after ${Math.round(report.slowestMs)} ms`,
    ...report.residentMiB.map((values, i) => `resident, MiB, ${["plaintext", "TLS"][i]}: ${tenOf(values).join(" ")}`),
    ...(isReached ? [] : ["the numbers asked for were not reached"]),
    `${problems.length} problems`,
    ...problems.slice(0, 20).map((problem) => `  ${problem}`),
  ];
  process.stdout.write(`${lines.join("\n")}\n`);
  return isReached && problems.length === 0;
}

/** At most ten of the values, evenly spaced, including the last one. */
function tenOf(values: readonly number[]): number[] {
  const step = Math.max(1, Math.ceil(values.length / 10));
  return values.filter((_, i) => (values.length - 1 - i) % step === 0);
}
