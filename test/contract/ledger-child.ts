/**
 * A process that appends until it is stopped or done, for tests that kill it. Arguments: directory of the store, number of records.
 * Prints `tenant leafIndex recordId` for every record that was acknowledged, at once and unbuffered; retries
 * what the store refused, with a new record. With a third argument `until-refused` it ends with 3 at the first refusal.
 */
import { randomFillSync } from "node:crypto";
import { writeSync } from "node:fs";
import { systemClock } from "../../src/base/clock.ts";
import { ServiceError } from "../../src/base/errors.ts";
import type { RandomFill } from "../../src/base/ids.ts";
import { openSqliteLedger } from "../../src/stores/sqlite/open-ledger.ts";
import { recordMaker, storeIn, tenant } from "./ledger-records.ts";

const [directory = "", count = "0", until] = process.argv.slice(2);
const callers = 32;
const standardOutput = 1;

const random: RandomFill = (bytes) => randomFillSync(bytes);
const makeRecord = recordMaker(systemClock, random);
const ledger = await openSqliteLedger({
  ...storeIn(directory),
  originPrefix: "ledger.example/logs",
  clock: systemClock,
  random,
});
const tenants = [tenant("alice"), tenant("bob"), tenant("carol")] as const;
let remaining = Number(count);

async function appendUntilDone(caller: number): Promise<void> {
  const tenantId = tenants[caller % tenants.length] ?? tenants[0];
  while (remaining > 0) {
    remaining -= 1;
    try {
      const { leafIndex, recordId } = await ledger.append(makeRecord(tenantId));
      tell(`${tenantId} ${leafIndex} ${recordId}\n`);
    } catch (error) {
      if (!(error instanceof ServiceError) || error.reason !== "store_unavailable") throw error;
      remaining += 1;
      if (until !== "until-refused") continue;
      process.exitCode = 3;
      remaining = 0;
    }
  }
}

/** Unbuffered. A pipe that is full says so rather than wait: its reader makes room. */
function tell(line: string): void {
  for (;;) {
    try {
      writeSync(standardOutput, line);
      return;
    } catch (error) {
      if (!(error instanceof Error && "code" in error && error.code === "EAGAIN")) throw error;
    }
  }
}

await Promise.all(Array.from({ length: callers }, (_, caller) => appendUntilDone(caller)));
await ledger.close();
