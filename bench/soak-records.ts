/** Looks every acknowledged record up, and has the whole log verified. */
import { execFile } from "node:child_process";
import { randomFillSync } from "node:crypto";
import { join } from "node:path";
import { promisify } from "node:util";
import { systemClock } from "../src/base/clock.ts";
import { parseRecordId, parseTenantId } from "../src/base/ids.ts";
import { openSqliteLedger } from "../src/stores/sqlite/open-ledger.ts";
import { benchOrigin, storeSettings } from "./deployment.ts";
import type { Acknowledged } from "./soak-callers.ts";

const tenant = parseTenantId("tenant-a");

/** Problems, none of which should be there. */
export async function verifyRecords(dataDir: string, acknowledged: readonly Acknowledged[]): Promise<string[]> {
  return [...(await verifyLog(dataDir)), ...positionProblems(acknowledged), ...(await findAll(dataDir, acknowledged))];
}

/** `ledger verify`, as an operator runs it. */
async function verifyLog(dataDir: string): Promise<string[]> {
  const args = [join(import.meta.dirname, "../src/cli/cli.ts"), "ledger", "verify"];
  const env = { PATH: process.env.PATH ?? "", ...storeSettings(dataDir) };
  try {
    await promisify(execFile)(process.execPath, args, { env });
    return [];
  } catch (error) {
    return [`ledger verify: ${(error as { stderr: string }).stderr}`];
  }
}

/** No two answers may name one place. */
function positionProblems(acknowledged: readonly Acknowledged[]): string[] {
  const places = new Map<string, string>();
  return acknowledged.flatMap(({ log, leafIndex, recordId }) => {
    const place = `${log}/${leafIndex}`;
    const taken = places.get(place);
    places.set(place, recordId);
    return taken === undefined ? [] : [`${place} was given to ${taken} and to ${recordId}`];
  });
}

async function findAll(dataDir: string, acknowledged: readonly Acknowledged[]): Promise<string[]> {
  if (tenant === undefined) throw new Error("malformed tenant id");
  const { SVC_STORE, SVC_LEDGER_KEY } = storeSettings(dataDir);
  const path = SVC_STORE.slice("sqlite:".length);
  const ledger = await openSqliteLedger({
    path,
    anchorPath: `${path}.anchor`,
    keyPath: SVC_LEDGER_KEY,
    originPrefix: benchOrigin,
    clock: systemClock,
    random: (bytes) => randomFillSync(bytes),
  });
  const problems: string[] = [];
  for (const { recordId, log, resourceId } of acknowledged) {
    const id = parseRecordId(recordId);
    const record = id === undefined ? "malformed" : await ledger.find(tenant, id);
    if (typeof record === "string") problems.push(`record ${recordId} is ${record}`);
    else {
      const { resource } = record.request as { readonly resource?: { readonly id?: string } };
      if (record.log !== log || resource?.id !== resourceId) problems.push(`record ${recordId} is another`);
    }
  }
  await ledger.close();
  return problems;
}
