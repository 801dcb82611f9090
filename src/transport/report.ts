import type { Logger } from "../telemetry/logger.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { Answered } from "./beginning.ts";

/** Asked every few seconds by whoever watches the service: a line for each would be most of the log. */
const probes = /^Health\//;

/**
 * One line and one count for every request; health probes are logged at `debug`. Paths that lead nowhere are not
 * logged: they are the caller's text. What the log has of a call comes from the credentials and the contract.
 */
export function reportAnswered(answered: Answered, logger: Logger, metrics: Metrics): void {
  const { call, status, durationMs } = answered;
  const { caller, refusal, protocol = "rest", rpc = "none" } = call;
  const code = refusal?.code ?? "ok";
  const reason = refusal?.reason ?? "none";
  metrics.callFinished({ rpc, protocol, code, reason, durationMs });
  if (refusal?.code === "unauthenticated") metrics.credentialsRefused(reason);
  const fields = {
    request_id: call.requestId,
    protocol,
    rpc,
    http_version: answered.httpVersion,
    method: answered.method.slice(0, 16),
    status,
    code,
    // The logger leaves out what is undefined.
    reason: refusal?.reason,
    tenant_id: caller?.tenantId,
    principal_id: caller?.principalId,
    duration_ms: durationMs,
    remote_address: answered.remoteAddress,
  };
  if (refusal?.reason === "internal")
    logger.error({ ...fields, err: refusal.details.cause ?? refusal }, "request failed");
  else if (refusal !== undefined && refusal.httpStatus >= 500)
    logger.warn({ ...fields, err: refusal }, "request refused");
  else if (probes.test(rpc)) logger.debug(fields, "request");
  else logger.info(fields, "request");
}
