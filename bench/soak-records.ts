/** After a soak: is every acknowledged record in the store exactly once, and do all logs verify? */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { readConfig } from "../src/config/config.ts";
import { systemFiles } from "../src/config/load.ts";
import type { LogState } from "../src/ledger/ports/store.ts";
import { storeBackend } from "../src/stores/backends.ts";
import { openStoredRecord } from "../src/stores/sql/stored-record.ts";
import type { Acknowledged, Called } from "./soak-callers.ts";

export interface StoredCount {
  readonly records: number;
  readonly problems: readonly string[];
}

/** @param settings of the store, as the gateways had them */
export async function verifyRecords(settings: Readonly<Record<string, string>>, called: Called): Promise<StoredCount> {
  const { records, problems } = await checkLogs(settings, called);
  return {
    records,
    problems: [...(await verifyLogs(settings)), ...positionProblems(called.acknowledged), ...problems],
  };
}

async function verifyLogs(settings: Readonly<Record<string, string>>): Promise<string[]> {
  const args = [join(import.meta.dirname, "../src/cli/cli.ts"), "ledger", "verify"];
  const env = { PATH: process.env.PATH ?? "", ...settings };
  try {
    await promisify(execFile)(process.execPath, args, { env });
    return [];
  } catch (error) {
    return [`ledger verify: ${(error as { stderr: string }).stderr}`];
  }
}

/** No two answers may name one place, unless they are for one call. */
function positionProblems(acknowledged: readonly Acknowledged[]): string[] {
  const places = new Map<string, string>();
  return acknowledged.flatMap(({ log, leafIndex, recordId }) => {
    const place = `${log}/${leafIndex}`;
    const taken = places.get(place);
    places.set(place, recordId);
    return taken === undefined ? [] : [`${place} was given to ${taken} and to ${recordId}`];
  });
}

/** Opens every record of every log, and compares them with the acknowledged ones. */
async function checkLogs(settings: Readonly<Record<string, string>>, called: Called): Promise<StoredCount> {
  const config = readConfig(settings, undefined, { uses: "ledger", files: systemFiles });
  if ("problems" in config) throw new Error(config.problems.join("\n"));
  const archive = await (await storeBackend(config.config)).openArchive();
  const missing = new Map(called.acknowledged.map((entry) => [entry.recordId, entry]));
  const times = new Map<string, number>();
  const problems: string[] = [];
  let records = 0;
  const check = async (head: LogState) => {
    let next = 0;
    for await (const { leafIndex, recordId, leaf, sealed, opening } of archive.entries(head, 0, head.size)) {
      if (leafIndex !== next) problems.push(`${head.origin}: leaf ${leafIndex} stands in the place of leaf ${next}`);
      next = leafIndex + 1;
      if (opening === undefined) throw new Error(`${head.origin}: record ${recordId} cannot be opened`);
      const { request, tenant_id } = openStoredRecord(`record ${recordId}`, leaf, sealed, opening);
      const { resource } = request as { readonly resource?: { readonly id?: string } };
      if (resource?.id === undefined) continue;
      records += 1;
      times.set(resource.id, (times.get(resource.id) ?? 0) + 1);
      const entry = missing.get(recordId);
      if (entry === undefined) continue;
      missing.delete(recordId);
      const isAsPromised =
        entry.leafIndex === leafIndex &&
        entry.log === head.origin &&
        entry.tenant === tenant_id &&
        entry.resourceId === resource.id;
      if (!isAsPromised) problems.push(`record ${recordId} is not where, or not what, its receipt says`);
    }
    if (next !== head.size) problems.push(`${head.origin}: ends after ${next} leaves of ${head.size}`);
  };
  try {
    for (const head of await archive.logs()) await check(head);
  } finally {
    await archive.close();
  }
  for (const id of missing.keys()) problems.push(`record ${id} was acknowledged and is not there`);
  for (const [id, count] of times)
    if (count > 1 && called.keyed.has(id)) problems.push(`${id}: ${count} records of one idempotency key`);
  return { records, problems };
}
