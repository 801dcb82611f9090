/** The operators' side: the operator listener over readiness, metrics and the logs. */
import type { Timers } from "../base/timers.ts";
import type { PublishedLogs } from "../ledger/ports/ledger.ts";
import { createOpsListener, type OpsListener, type OpsListenerOptions } from "../ops/listener.ts";
import type { ReadinessCheck } from "../ops/readiness.ts";
import { type FileSource, followTls } from "./followed-files.ts";
import { defectReport, type Machine, type ServeConfig } from "./gateway.ts";
import { type LivePolicy, newerSet } from "./live-policy.ts";
import { type OpsViewers, servesLogs } from "./ops-viewers.ts";

/** Parts of the operator listener. The caller closes them. */
interface OperatorParts {
  readonly checks: readonly ReadinessCheck[];
  readonly metrics: OpsListenerOptions["metrics"];
  readonly logs: PublishedLogs;
  readonly viewers: OpsViewers;
  /** Default: requests are answered at once. */
  readonly hold?: OpsListenerOptions["hold"];
}

export async function createOperatorSide(
  config: ServeConfig,
  machine: Omit<Machine, "metrics"> & { readonly timers: Timers; readonly files: FileSource },
  { checks, metrics, logs, viewers, hold }: OperatorParts,
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
    logs: servesLogs(config) ? { logs, viewerOf: viewers.viewerOf } : undefined,
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
