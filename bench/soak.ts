/**
 * Mixed load on a gateway that is killed at random, over and over; and at the end, is everything there that was
 * acknowledged? `npm run soak -- [--minutes 5] [--callers 24] [--seed 1]`. Ends with 1 where a record is missing or
 * differs, or where a call was answered wrongly.
 *
 * Callers count what was acknowledged, and nothing else: a call that the kill cut off may have been recorded or not.
 * Every call carries a resource id of its own; the record that its receipt names must hold it.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { fetchToken, startBenchIssuer, startGatewayProcess } from "./deployment.ts";
import { type Acknowledged, createCallers, type Target } from "./soak-callers.ts";
import { verifyRecords } from "./soak-records.ts";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "5" },
    callers: { type: "string", default: "24" },
    seed: { type: "string", default: "1" },
  },
});
const durationMs = Number(values.minutes) * 60_000;
/** Time that a gateway lives before it is killed, in milliseconds: drawn evenly from this range. */
const lifeMs = { shortest: 200, longest: 3_000 };

const random = randomFrom(Number(values.seed));
const directory = mkdtempSync(join(tmpdir(), "soak-"));
const issuer = await startBenchIssuer();
const acknowledged: Acknowledged[] = [];
const problems: string[] = [];
let kills = 0;
let intact = false;
try {
  const token = await fetchToken(issuer);
  const target: Target = { url: undefined };
  const callers = createCallers({
    number: Number(values.callers),
    token,
    target,
    onAcknowledged: (entry) => acknowledged.push(entry),
    onProblem: (problem) => problems.push(problem),
  });
  const end = performance.now() + durationMs;
  const start = () => startGatewayProcess({ issuer, dataDir: directory, logFile: join(directory, "gateway.log") });
  while (performance.now() < end && problems.length === 0) {
    const gateway = await start();
    target.url = gateway.listening.url;
    await delay(lifeMs.shortest + random() * (lifeMs.longest - lifeMs.shortest));
    await gateway.stop("SIGKILL");
    kills++;
    if (process.stderr.isTTY) process.stderr.write(`\r${kills} kills, ${acknowledged.length} records acknowledged `);
  }
  await callers.stop();
  // One more start: the service itself has to accept what it finds, and a stop that is asked for is clean.
  const last = await start();
  const exitCode = await last.stop();
  if (exitCode !== 0) problems.push(`the last gateway ended with ${exitCode}`);
  problems.push(...(await verifyRecords(directory, acknowledged)));
  intact = problems.length === 0 && acknowledged.length > 0 && kills > 0;
  process.stdout.write(`\n${kills} kills, ${acknowledged.length} records acknowledged, ${problems.length} problems\n`);
  for (const problem of problems.slice(0, 20)) process.stdout.write(`  ${problem}\n`);
} finally {
  await issuer.stop();
  if (intact) rmSync(directory, { recursive: true });
  else process.stdout.write(`What is left is in ${directory}\n`);
}
process.exitCode = intact ? 0 : 1;

/** Numbers from 0 up to 1 that a seed repeats (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
