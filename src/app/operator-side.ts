/** The operators' side: the operator listener over readiness, metrics and the logs. */
import { ServiceError } from "../base/errors.ts";
import type { RecordId, TenantId } from "../base/ids.ts";
import type { Timers } from "../base/timers.ts";
import type { PublishedLogs, RecordArchive } from "../ledger/ports/ledger.ts";
import { createOpsListener, type OpsListener, type OpsListenerOptions } from "../ops/listener.ts";
import type { ReadinessCheck } from "../ops/readiness.ts";
import { explanationMembers } from "../policy/engine/explanation.ts";
import type { PolicyHolder } from "../policy/engine/holder.ts";
import { type FileSource, followTls } from "./followed-files.ts";
import { defectReport, type Machine, type ServeConfig } from "./gateway.ts";
import { type LivePolicy, newerSet } from "./live-policy.ts";
import { type OpsViewers, servesLogs } from "./ops-viewers.ts";
import { servedPolicies } from "./policy-console.ts";

/** Parts of the operator listener. The caller closes them. */
interface OperatorParts {
  readonly checks: readonly ReadinessCheck[];
  readonly metrics: OpsListenerOptions["metrics"];
  readonly logs: PublishedLogs & Pick<RecordArchive, "find" | "policyRevision">;
  readonly policy: PolicyHolder;
  readonly viewers: OpsViewers;
  /** Default: requests are answered at once. */
  readonly hold?: OpsListenerOptions["hold"];
}

export async function createOperatorSide(
  config: ServeConfig,
  machine: Omit<Machine, "metrics"> & { readonly timers: Timers; readonly files: FileSource },
  { checks, metrics, logs, policy, viewers, hold }: OperatorParts,
): Promise<OpsListener> {
  const { clock, timers, random, logger } = machine;
  if (!servesLogs(config))
    logger.warn({}, "the operator listener does not serve the logs: off loopback it needs SVC_OPS_TLS_CERT");
  let listener: OpsListener | undefined;
  const tls = await followTls("ops_tls", config, machine, (next) => listener?.replaceTls(next));
  listener = createOpsListener({
    ...(hold !== undefined && { hold }),
    serviceName: config.serviceName,
    checks,
    metrics,
    logs: servesLogs(config)
      ? {
          logs,
          viewerOf: viewers.viewerOf,
          explain: (tenantId, recordId) => explainDecision(logs, policy, tenantId, recordId),
          signIn: viewers.signIn,
          policies: servedPolicies(config, logs, policy, timers),
          consolePage: new URL("../../console/dist/index.html", import.meta.url),
        }
      : undefined,
    ...(tls !== undefined && { tls: tls.current }),
    loopback: config.opsListen.loopback,
    onDefect: defectReport(logger),
    logger,
    clock,
    timers,
    random,
  });
  return listener;
}

/**
 * Explains a recorded decision under the policies in force. `explanation` is absent if these policies read the artifact's
 * registrations, and the decision did not look them up. Rejects with `no_route` if there is no such decision, or it was
 * erased.
 */
async function explainDecision(
  archive: Pick<RecordArchive, "find">,
  policy: PolicyHolder,
  tenantId: TenantId,
  recordId: RecordId,
) {
  const { findDecision } = await import("../domain/replay.ts");
  const decision = await findDecision(archive, tenantId, recordId);
  if (typeof decision === "string") throw new ServiceError("no_route", "the log has no such decision");
  const { record, query, isComplete } = decision;
  return {
    recorded_revision: record.outcome.policy_revision,
    current_revision: policy.revision,
    ...((isComplete || !policy.readsRegistered(query)) && { explanation: explanationMembers(policy.explain(query)) }),
  };
}

/** A refused set causes a remark only: the one in force is valid, and a mistake must not stop every replica at once. */
export function policyReadiness(policy: LivePolicy): ReadinessCheck {
  return { name: "policy", check: async () => {}, remark: () => policyRemark(policy) };
}

/** For operators: the number of problems. The problems themselves are only in the log, which fewer people can read. */
function policyRemark({ status }: LivePolicy): string | undefined {
  const { newest, problems = [] } = status();
  if (newest === "in_force") return undefined;
  return `a newer policy set ${newerSet[newest]}${problems.length > 0 ? `; problems named in the log: ${problems.length}` : ""}`;
}
