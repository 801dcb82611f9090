import type { Clock } from "../../base/clock.ts";
import type { ServiceError } from "../../base/errors.ts";
import { securityOf } from "../../base/security-events.ts";
import type { DecisionMade } from "../../domain/record.ts";
import { describeCause, type Logger } from "../../telemetry/logger.ts";
import type { Metrics } from "../../telemetry/metrics.ts";
import type { Answered } from "./call.ts";

/** Probes are frequent: a line for each would be most of the log. */
export function isProbe(rpc: string | undefined): boolean {
  return rpc?.startsWith("Health/") === true;
}

/** Log lines of one kind per second, so that an attacker cannot fill the log. */
const maxLines = 20;
/** Most policies that a line names; the record names all. */
const maxReasons = 32;

/**
 * Returns a function that reports every request: it counts each, and logs each unless its reason of refusal was logged
 * `maxLines` times in this second. The next line of that reason has the number of lines left out. Health probes
 * are logged at `debug`. Unknown paths are not logged, because they are text of the caller.
 */
export function createReport(logger: Logger, metrics: Metrics, clock: Clock): (answered: Answered) => void {
  const sample = createSampler(clock);
  return (answered) => {
    const { refusal, protocol = "rest", rpc = "none", ticket, caller } = answered.call;
    const code = refusal?.code ?? "ok";
    const reason = refusal?.reason ?? "none";
    const httpStatus = refusal?.httpStatus ?? 200;
    const tenant = caller?.tenantId;
    metrics.callFinished({ rpc, protocol, code, reason, durationMs: answered.durationMs, httpStatus, tenant });
    if (ticket !== undefined) metrics.queueWaited("admission", ticket.waitedMs);
    if (refusal === undefined) {
      if (isProbe(rpc)) logger.debug(fieldsOf(answered), "request");
      else logger.info(fieldsOf(answered), "request");
      return;
    }
    if (refusal.code === "unauthenticated") metrics.credentialsRefused(reason);
    const leftOut = sample(reason);
    if (leftOut === undefined) return;
    const fields = { ...fieldsOf(answered), ...securityOf(refusal.reason, rpc), left_out: leftOut || undefined };
    logRefusal(logger, fields, refusal);
  };
}

function logRefusal(logger: Logger, fields: object, refusal: ServiceError): void {
  const { reason, httpStatus, message, details } = refusal;
  if (reason === "internal") logger.error({ ...fields, err: details.cause ?? refusal }, "request failed");
  else if (httpStatus >= 500)
    logger.warn({ ...fields, detail: message, cause: describeCause(details.cause) }, "request refused");
  else logger.info({ ...fields }, "request");
}

function fieldsOf({ call, httpVersion, status, durationMs }: Answered) {
  const { requestId, caller, decision, refusal, protocol = "rest", rpc = "none", span, items, streamedItems } = call;
  const { method, remoteAddress } = call.inbound;
  return {
    request_id: requestId,
    trace_id: span?.traceId,
    span_id: span?.spanId,
    protocol,
    rpc,
    http_version: httpVersion,
    method: method.slice(0, 16),
    status,
    code: refusal?.code ?? "ok",
    // The logger leaves out undefined members.
    reason: refusal?.reason,
    tenant_id: caller?.tenantId,
    principal_id: caller?.principalId,
    items: items?.count ?? streamedItems,
    duration_ms: durationMs,
    remote_address: remoteAddress,
    ...(decision !== undefined && decisionFields(decision)),
  };
}

/** Fields that explain the decision: ids of policies and operators, and no text of the caller. */
function decisionFields({ decisionId, decision }: DecisionMade) {
  const { allow, policyRevision, reasons, alerts } = decision;
  return {
    decision_id: decisionId,
    allow,
    policy_revision: policyRevision,
    reasons: reasons.length > maxReasons ? reasons.slice(0, maxReasons) : reasons,
    alerts: alerts.length === 0 ? undefined : alerts,
  };
}

/** Returns how many lines of this kind were left out before this one; undefined if this one is left out. */
export function createSampler(clock: Clock): (kind: string) => number | undefined {
  const kinds = new Map<string, { second: number; lines: number; leftOut: number }>();
  return (kind) => {
    const second = Math.floor(clock.now() / 1000);
    const sampled = kinds.get(kind) ?? { second, lines: 0, leftOut: 0 };
    kinds.set(kind, sampled);
    if (sampled.second !== second) Object.assign(sampled, { second, lines: 0 });
    if (sampled.lines === maxLines) {
      sampled.leftOut += 1;
      return undefined;
    }
    const { leftOut } = sampled;
    Object.assign(sampled, { lines: sampled.lines + 1, leftOut: 0 });
    return leftOut;
  };
}
