/** The store of a service and its witnesses, opened by its settings, and their readiness. */
import { messageOf, ServiceError } from "../base/errors.ts";
import type { AppendEvents } from "../ledger/append/appender.ts";
import type { OpenSharedAnchor } from "../ledger/ports/anchor.ts";
import { trustedWitnesses } from "../ledger/witness/http-witness.ts";
import { Witnesses, type WitnessResult } from "../ledger/witness/witnesses.ts";
import type { ReadinessCheck } from "../ops/readiness.ts";
import { storeBackend } from "../stores/backends.ts";
import { settingOf } from "../stores/files/errors.ts";
import type { ServiceStores } from "../stores/sql/backend.ts";
import type { Machine } from "./followed-files.ts";
import type { ServeConfig } from "./gateway.ts";

/** Opens it. Rejects, naming the setting, if that is not possible. */
export async function openStores(
  config: ServeConfig,
  machine: Machine,
  openAnchor: OpenSharedAnchor | undefined,
): Promise<ServiceStores> {
  const { clock, random, logger, metrics } = machine;
  const events: AppendEvents = {
    committed: metrics.batchAppended,
    failed: metrics.appendFailed,
    waited: (waitedMs) => metrics.queueWaited("append", waitedMs),
  };
  const backend = await storeBackend(config);
  const stores = await backend
    .openStores(config, { clock, random, logger, openAnchor, events })
    .catch((cause: unknown) => {
      throw new Error(`${settingOf(cause)}: ${messageOf(cause)}`, { cause });
    });
  metrics.watchQueue("append", () => stores.ledger.waiting);
  metrics.watchStuck(() => stores.stuck().length);
  return stores;
}

/** Whether records can be written, with a remark about tenants whose records cannot. */
export function storeReadiness({ ledger, stuck }: Pick<ServiceStores, "ledger" | "stuck">): ReadinessCheck {
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

// The witnesses: an anchor of the ledger.

type WitnessMachine = Pick<Machine, "clock" | "timers" | "fetch" | "logger"> & {
  readonly metrics: Pick<Machine["metrics"], "witnessAsked">;
};
type WitnessingSettings = Pick<ServeConfig, "witnesses" | "witnessQuorum" | "anchor"> & {
  readonly store: Pick<ServeConfig["store"], "kind">;
};

export interface Witnessing {
  readonly open: OpenSharedAnchor;
  /** Fails while answers wait for a quorum that is not reached; remarks on witnesses that lag or report a problem. */
  readonly readiness: ReadinessCheck;
}

/** Undefined without witnesses. Throws, naming the setting, for an invalid key. */
export function witnessingOf(settings: WitnessingSettings, machine: WitnessMachine): Witnessing | undefined {
  if (settings.witnesses.length === 0) return undefined;
  const witnesses = trustedWitnesses(settings.witnesses, { fetch: machine.fetch, timers: machine.timers });
  // Without an anchor file, only the witnesses know what was answered.
  const hasFile = settings.store.kind === "sqlite" || settings.anchor !== undefined;
  const rule = {
    quorum: settings.witnessQuorum ?? Math.floor(witnesses.length / 2) + 1,
    awaited: settings.witnessQuorum !== undefined || !hasFile,
  };
  let opened: Witnesses | undefined;
  return {
    async open(store, signer) {
      const logs = { ...store, sign: signer.sign.bind(signer) };
      const { clock, timers } = machine;
      opened = new Witnesses({
        ...rule,
        witnesses,
        logs,
        clock,
        timers,
        onResult: (result) => report(result, machine),
      });
      await opened.start();
      return opened;
    },
    readiness: {
      name: "witnesses",
      async check() {
        if (opened?.isWaitingInVain === true)
          throw new ServiceError("store_unavailable", remarkOf(opened) ?? "not enough witnesses answer");
      },
      remark: () => opened && remarkOf(opened),
    },
  };
}

function remarkOf(witnesses: Witnesses): string | undefined {
  const remarks = witnesses.remarks();
  return remarks.length === 0 ? undefined : remarks.join("; ");
}

/** Counts every request; logs those whose result is another than before. */
function report({ witness, origin, status, isNew }: WitnessResult, { logger, metrics }: WitnessMachine): void {
  if (status.kind === "unasked") return;
  metrics.witnessAsked(witness, status.kind);
  if (!isNew) return;
  const fields = { witness, origin };
  if (status.kind === "cosigned") logger.debug(fields, "the witness has cosigned the log");
  else if (status.kind === "failed") logger.warn({ ...fields, problem: status.message }, "the witness does not cosign");
  else logger.error({ ...fields, problem: status.message }, "the log must not be continued");
}
