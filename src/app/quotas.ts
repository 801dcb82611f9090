/** Quotas of tenants: the file that a setting names, and the counters that all replicas share. */
import { parseQuotaFile } from "../config/quota-file.ts";
import type { PortionCounters } from "../domain/ports.ts";
import { Quotas } from "../domain/quotas.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { ServedMethod } from "../transport/calls/methods.ts";
import type { QuotaUse } from "../transport/gate/quota.ts";
import type { ServeConfig } from "./gateway.ts";
import { openWatchedSetting } from "./watched-setting.ts";

type WatchedSettingMachine = Parameters<typeof openWatchedSetting>[3];

/** Opens the file; undefined where the settings name none. Rejects, naming the setting, where it is not good. */
export async function openQuotaFile({ quotas: path }: Pick<ServeConfig, "quotas">, machine: WatchedSettingMachine) {
  return path === undefined ? undefined : openWatchedSetting("SVC_QUOTAS", path, parseQuotaFile, machine);
}

export interface OpenedQuotas {
  readonly quotas: Quotas;
  /** Gives back what is left, and follows the file no longer. */
  close(): Promise<void>;
}

export interface QuotasMachine extends WatchedSettingMachine {
  readonly clock: ConstructorParameters<typeof Quotas>[0]["clock"];
  readonly metrics: Pick<Metrics, "quotaEvent">;
  /** Told of what is wrong with the file; default: `logger`. */
  readonly fileLogger?: Pick<Logger, "error">;
}

/** Rejects as `openQuotaFile` does; undefined where there are none. */
export async function openQuotas(
  config: Pick<ServeConfig, "quotas">,
  counters: PortionCounters,
  { clock, timers, logger, metrics, fileLogger = logger }: QuotasMachine,
): Promise<OpenedQuotas | undefined> {
  const file = await openQuotaFile(config, { timers, logger: fileLogger });
  if (file === undefined) return undefined;
  const quotas = new Quotas({
    table: () => file.current,
    counters,
    clock,
    timers,
    onEvent: (quota, event) => metrics.quotaEvent(quota, event),
  });
  return {
    quotas,
    async close() {
      file.close();
      await quotas.close();
    },
  };
}

/** What calls of each method use. What changes nothing leaves no record. */
export function quotaUses(methods: readonly Pick<ServedMethod, "rpc" | "verb">[]): (rpc: string) => QuotaUse {
  const recorded = new Set(methods.flatMap(({ rpc, verb }) => (verb === "POST" ? [rpc] : [])));
  return (rpc) => ({
    isRecorded: recorded.has(rpc),
    isArtifact: rpc === "RegistrationService/RegisterArtifact",
  });
}
