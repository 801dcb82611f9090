/** The store that commands erase and hold records of, beside a running service or without one. */
import { randomFillSync } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import { systemClock } from "../../base/clock.ts";
import { parseRecordId, parseTenantId, type RecordId, type TenantId } from "../../base/ids.ts";
import type { RecordsAdministration } from "../../ledger/ports/records-administration.ts";
import { storeBackend } from "../../stores/backends.ts";
import { reasonProblems } from "../confirmation.ts";
import { type CommonOptions, loadOrReport, storeProblem } from "../options.ts";
import type { Output } from "../output.ts";

/** In which a service that waited for its turn gets it. */
const pauseMs = 100;

/** Opens the store of the settings and closes it again; where that cannot be, reports why and does nothing. */
export async function withAdministrationOrReport(
  options: CommonOptions,
  output: Output,
  work: (administration: RecordsAdministration) => Promise<void>,
): Promise<void> {
  const config = loadOrReport("ledger", options, output);
  if (config === undefined) return;
  let administration: RecordsAdministration;
  try {
    const random = (bytes: Uint8Array) => randomFillSync(bytes);
    const backend = await storeBackend(config);
    administration = await backend.openAdministration({ clock: systemClock, random, pause: () => setTimeout(pauseMs) });
  } catch (error) {
    return output.fail([storeProblem(error)]);
  }
  try {
    await work(administration);
  } finally {
    await administration.close();
  }
}

/** What a command is about, as it was typed. */
export interface Named {
  readonly tenant?: string;
  readonly record?: readonly string[];
  readonly reason?: string;
}

export interface Parsed {
  readonly tenantId: TenantId | undefined;
  /** Each once, in the order given. */
  readonly recordIds: readonly RecordId[];
}

/** Reads the names; where one is none, reports all that are and returns undefined. */
export function parseOrReport({ tenant, record = [], reason }: Named, output: Output): Parsed | undefined {
  const tenantId = tenant === undefined ? undefined : parseTenantId(tenant);
  const recordIds = record.map((text) => parseRecordId(text));
  const problems = [
    ...(tenant !== undefined && tenantId === undefined ? ["--tenant: is no tenant id"] : []),
    ...record.flatMap((text, i) =>
      recordIds[i] === undefined ? [`--record: ${JSON.stringify(text)} is no record id`] : [],
    ),
    ...reasonProblems(reason),
  ];
  if (problems.length === 0) return { tenantId, recordIds: [...new Set(recordIds.flatMap((id) => id ?? []))] };
  output.fail(problems);
  return undefined;
}
