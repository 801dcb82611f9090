/** The witnesses of a deployment: settings become an anchor of the ledger and its readiness. */
import type { Clock } from "../base/clock.ts";
import { ServiceError } from "../base/errors.ts";
import type { Timers } from "../base/timers.ts";
import type { WitnessSetting } from "../config/values.ts";
import type { OpenSharedAnchor } from "../ledger/ports/anchor.ts";
import { trustedWitnesses } from "../ledger/witness/http-witness.ts";
import { Witnesses, type WitnessStatusChange } from "../ledger/witness/witnesses.ts";
import type { ReadinessCheck } from "../ops/readiness.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Metrics } from "../telemetry/metrics.ts";

/** The machine's facilities, logger and metrics. */
export interface WitnessMachine {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly fetch: typeof globalThis.fetch;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, "witnessChanged">;
}

export interface WitnessingSettings {
  readonly witnesses: readonly WitnessSetting[];
  readonly witnessQuorum: number | undefined;
  readonly store: { readonly kind: "sqlite" | "postgres" };
  readonly anchor: string | undefined;
}

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
      const logs = {
        head: (name) => store.head(name),
        consistencyProof: (name, first, second) => store.consistencyProof(name, first, second),
        logs: () => store.logs(),
        cosignatures: () => store.cosignatures(),
        storeCosignatures: (cosignatures) => store.storeCosignatures(cosignatures),
        sign: (checkpoint) => signer.sign(checkpoint),
      } satisfies ConstructorParameters<typeof Witnesses>[0]["logs"];
      const { clock, timers } = machine;
      opened = new Witnesses({
        ...rule,
        witnesses,
        logs,
        clock,
        timers,
        onStatus: (change) => report(change, machine),
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

function report({ witness, origin, status }: WitnessStatusChange, { logger, metrics }: WitnessMachine): void {
  if (status.kind === "unasked") return;
  metrics.witnessChanged(witness, status.kind);
  const fields = { witness, origin };
  if (status.kind === "cosigned") logger.debug(fields, "the witness has cosigned the log");
  else if (status.kind === "failed") logger.warn({ ...fields, problem: status.message }, "the witness does not cosign");
  else logger.error({ ...fields, problem: status.message }, "the log must not be continued");
}
