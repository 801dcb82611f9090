import { ServiceError } from "../base/errors.ts";
import type { Timers } from "../base/timers.ts";

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

export interface CheckResult {
  readonly name: string;
  readonly status: "ok" | "failed";
  readonly reason?: string;
}

export interface Readiness {
  readonly ready: boolean;
  readonly checks: readonly CheckResult[];
}

/** Probes are promised an answer within two seconds; this leaves time for the network. */
export const checkTimeoutMs = 1_500;

/** Runs all checks concurrently, each within `checkTimeoutMs`. Never rejects. */
export async function runChecks(checks: readonly ReadinessCheck[], timers: Timers): Promise<Readiness> {
  const results = await Promise.all(checks.map((check) => runCheck(check, timers)));
  return { ready: results.every(({ status }) => status === "ok"), checks: results };
}

async function runCheck({ name, check, remark }: ReadinessCheck, timers: Timers): Promise<CheckResult> {
  const controller = new AbortController();
  const expired = Promise.withResolvers<never>();
  const cancel = timers.after(checkTimeoutMs, () => {
    const late = new ServiceError("deadline_exceeded", `no answer within ${checkTimeoutMs} ms`);
    expired.reject(late);
    controller.abort(late);
  });
  try {
    await Promise.race([check(controller.signal), expired.promise]);
    const reason = remark?.();
    return { name, status: "ok", ...(reason !== undefined && { reason }) };
  } catch (error) {
    return { name, status: "failed", reason: error instanceof ServiceError ? error.message : "internal error" };
  } finally {
    cancel();
  }
}
