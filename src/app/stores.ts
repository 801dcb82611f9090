/** The store of a service, opened by its settings, and its readiness. */
import type { ReplayStore } from "../auth/replay-store.ts";
import type { AttemptCounters, PortionCounters } from "../domain/ports.ts";
import type { LedgerEvents, ServiceLedger } from "../ledger/append/ledger.ts";
import type { OpenSharedAnchor } from "../ledger/ports/anchor.ts";
import type { ReadinessCheck } from "../ops/readiness.ts";
import { storeBackend } from "../stores/backends.ts";
import { KeyFileError } from "../stores/files/key-file.ts";
import type { Machine, ServeConfig } from "./gateway.ts";

export interface OpenedStores {
  readonly ledger: ServiceLedger;
  /** Short-lived state that replicas share; closed with the ledger. */
  readonly shared: ReplayStore & AttemptCounters & PortionCounters;
  /** Tenants whose store operations fail, the longest first. */
  readonly stuck: () => readonly string[];
}

/** Opens it. Rejects, naming the setting, if that is not possible. */
export async function openStores(
  config: ServeConfig,
  machine: Machine,
  openAnchor: OpenSharedAnchor | undefined,
): Promise<OpenedStores> {
  const { clock, random, logger, metrics } = machine;
  const events: LedgerEvents = {
    committed: metrics.batchAppended,
    failed: metrics.appendFailed,
    waited: (waitedMs) => metrics.queueWaited("append", waitedMs),
    watchWaiting: (count) => metrics.watchQueue("append", count),
  };
  const backend = await storeBackend(config);
  const { ledger, shared, stuck } = await backend
    .openStores(config, { clock, random, logger, openAnchor, events })
    .catch((cause: unknown) => {
      throw new Error(`${storeSetting(cause)}: ${cause instanceof Error ? cause.message : "cannot be opened"}`, {
        cause,
      });
    });
  metrics.watchStuck(() => stuck().length);
  return { ledger, shared, stuck };
}

/** The setting that prevented a store from being opened. */
function storeSetting(problem: unknown): "SVC_LEDGER_KEY" | "SVC_STORE" {
  return problem instanceof KeyFileError ? "SVC_LEDGER_KEY" : "SVC_STORE";
}

/** Whether records can be written, with a remark about tenants whose records cannot. */
export function storeReadiness({ ledger, stuck }: Pick<OpenedStores, "ledger" | "stuck">): ReadinessCheck {
  return { name: "store", check: () => ledger.check(), remark: () => stuckRemark(stuck()) };
}

const namedInRemark = 3;

/** Other tenants are served, so the service is ready; the operator is informed. */
function stuckRemark(stuck: readonly string[]): string | undefined {
  if (stuck.length === 0) return undefined;
  const others = stuck.length - namedInRemark;
  const names = stuck.slice(0, namedInRemark).join(", ");
  return `store operations fail for ${names}${others > 0 ? `, and ${others} more` : ""}`;
}
