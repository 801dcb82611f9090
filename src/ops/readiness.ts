import { ServiceError } from "../base/errors.ts";
import { type Timers, withTimeLimit } from "../base/timers.ts";

/** A condition of readiness. */
export interface ReadinessCheck {
  /** Lowercase name for operators, such as `store`. */
  readonly name: string;
  /**
   * Resolves if the condition holds now; rejects if not. The message of a `ServiceError` is visible on the operator
   * listener; other messages are not. The signal aborts when the result is no longer awaited.
   */
  check(signal: AbortSignal): Promise<void>;
  /** Advice for operators although the condition holds. Visible like a message. */
  remark?(): string | undefined;
}

/** Probes are promised an answer within two seconds; this leaves time for the network. */
export const checkTimeoutMs = 1_500;

/** Runs all checks concurrently, each within `checkTimeoutMs`. Never rejects. */
export async function runChecks(checks: readonly ReadinessCheck[], timers: Timers) {
  const results = await Promise.all(checks.map((check) => runCheck(check, timers)));
  return { ready: results.every(({ status }) => status === "ok"), checks: results };
}

async function runCheck({ name, check, remark }: ReadinessCheck, timers: Timers) {
  const late = () => new ServiceError("deadline_exceeded", `no answer within ${checkTimeoutMs} ms`);
  const work = (signal: AbortSignal) => {
    const expired = Promise.withResolvers<never>();
    signal.addEventListener("abort", () => expired.reject(signal.reason));
    return Promise.race([check(signal), expired.promise]);
  };
  try {
    await withTimeLimit(timers, checkTimeoutMs, late, work);
    const reason = remark?.();
    return { name, status: "ok", ...(reason !== undefined && { reason }) } as const;
  } catch (error) {
    const reason = error instanceof ServiceError ? error.message : "internal error";
    return { name, status: "failed", reason } as const;
  }
}
