/** The store that ledger commands look at, beside a running service or without one. */
import { existsSync } from "node:fs";
import type { LogState } from "../ledger/store.ts";
import { LogWalk } from "../stores/sqlite/log-walk.ts";
import { type StorePlace, sqlitePlace } from "../stores/sqlite/place.ts";
import { type CommonOptions, loadOrReport } from "./options.ts";
import type { Output } from "./output.ts";

export interface OpenedStore {
  readonly place: StorePlace;
  /** The caller closes it. */
  readonly walk: LogWalk;
}

/** Opens the store of the settings; where that cannot be, reports why and returns undefined. */
export function openStoreOrReport(options: CommonOptions, output: Output): OpenedStore | undefined {
  const config = loadOrReport("ledger", options, output);
  if (config === undefined) return undefined;
  const { store } = config;
  if (store.kind !== "sqlite") {
    output.fail([`SVC_STORE: ${store.kind} stores are not read by this build`]);
    return undefined;
  }
  if (!existsSync(store.path)) {
    output.fail([`SVC_STORE: ${store.path} is missing`]);
    return undefined;
  }
  try {
    return { place: sqlitePlace(store.path, config), walk: new LogWalk(store.path) };
  } catch (error) {
    output.fail([`SVC_STORE: ${error instanceof Error ? error.message : String(error)}`]);
    return undefined;
  }
}

/** The logs that a command is about; where the tenant has none, reports it and returns undefined. */
export function logsOrReport(
  walk: LogWalk,
  tenant: string | undefined,
  output: Output,
): readonly LogState[] | undefined {
  const logs = walk.logs().filter(({ tenantId }) => tenant === undefined || tenantId === tenant);
  if (logs.length > 0 || tenant === undefined) return logs;
  output.fail([`tenant ${tenant} has no log`]);
  return undefined;
}
