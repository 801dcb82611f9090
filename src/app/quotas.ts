/** Quotas of tenants: the file that a setting names, and the counters that all replicas share. */
import { parseQuotaFile } from "../config/data-files.ts";
import type { PortionCounters } from "../domain/ports.ts";
import { Quotas } from "../domain/quotas.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { ServedMethod } from "../transport/calls/methods.ts";
import type { QuotaUse } from "../transport/gate/quota.ts";
import { type FileSource, isNamed } from "./followed-files.ts";
import type { ServeConfig } from "./gateway.ts";

/** Watches the file; undefined without a setting. Rejects, naming the setting, if it is invalid. */
export async function followQuotas(config: ServeConfig, files: FileSource) {
  return isNamed("quotas", config)
    ? files.follow("quotas", { parse: ([text = ""]) => parseQuotaFile(text) })
    : undefined;
}

export interface OpenedQuotas {
  readonly quotas: Quotas;
  /** Returns the unused portions. */
  close(): Promise<void>;
}

export interface QuotasMachine extends Pick<ConstructorParameters<typeof Quotas>[0], "clock" | "timers"> {
  readonly metrics: Pick<Metrics, "quotaEvent">;
  readonly files: FileSource;
}

/** Rejects as `followQuotas` does; undefined without quotas. */
export async function openQuotas(
  config: ServeConfig,
  counters: PortionCounters,
  { clock, timers, metrics, files }: QuotasMachine,
): Promise<OpenedQuotas | undefined> {
  const file = await followQuotas(config, files);
  if (file === undefined) return undefined;
  const quotas = new Quotas({
    table: () => file.current,
    counters,
    clock,
    timers,
    onEvent: (quota, event) => metrics.quotaEvent(quota, event),
  });
  return { quotas, close: () => quotas.close() };
}

/** The quotas that calls of each method use. Only calls that change something are recorded. */
export function quotaUses(methods: readonly Pick<ServedMethod, "rpc" | "verb">[]): (rpc: string) => QuotaUse {
  const recorded = new Set(methods.flatMap(({ rpc, verb }) => (verb === "POST" ? [rpc] : [])));
  return (rpc) => ({
    isRecorded: recorded.has(rpc),
    isArtifact: rpc === "RegistrationService/RegisterArtifact",
  });
}
