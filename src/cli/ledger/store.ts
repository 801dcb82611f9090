/** The store that ledger commands look at, beside a running service or without one. */
import type { StoreArchive } from "../../ledger/ports/archive.ts";
import type { LogState } from "../../ledger/ports/store.ts";
import { storeBackend } from "../../stores/backends.ts";
import { type CommonOptions, loadOrReport, storeProblem } from "../options.ts";
import type { Output } from "../output.ts";

export interface OpenedStore {
  readonly archive: StoreArchive;
  /** Path of the file of the keys that sign checkpoints. */
  readonly keyPath: string;
}

/** Opens the store of the settings and closes it again; where that cannot be, reports why and looks at nothing. */
export async function withStoreOrReport(
  options: CommonOptions,
  output: Output,
  look: (opened: OpenedStore) => Promise<void>,
): Promise<void> {
  const config = loadOrReport("ledger", options, output);
  if (config === undefined) return;
  let archive: StoreArchive;
  try {
    archive = await (await storeBackend(config)).openArchive();
  } catch (error) {
    return output.fail([storeProblem(error)]);
  }
  try {
    await look({ archive, keyPath: config.ledgerKey });
  } finally {
    await archive.close();
  }
}

/** The logs that a command is about; where the tenant has none, reports it and resolves with undefined. */
export async function logsOrReport(
  archive: StoreArchive,
  tenant: string | undefined,
  output: Output,
): Promise<readonly LogState[] | undefined> {
  const logs = (await archive.logs()).filter(({ tenantId }) => tenant === undefined || tenantId === tenant);
  if (logs.length > 0 || tenant === undefined) return logs;
  output.fail([`tenant ${tenant} has no log`]);
  return undefined;
}
