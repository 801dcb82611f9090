/** Whether the service can do its work now. */
import { ServiceError } from "../base/errors.ts";
import type { Timers } from "../base/timers.ts";

/** One thing that must hold for the service to be ready. */
export interface ReadinessCheck {
  /** Lowercase name for operators, such as `store`. */
  readonly name: string;
  /**
   * Resolves where it holds at this moment, and rejects where it does not. The message of a `ServiceError` is shown
   * to whoever can reach the operator listener; that of any other error is not. The signal aborts when nobody waits
   * any longer.
   */
  check(signal: AbortSignal): Promise<void>;
  /** What an operator should know of it although it holds, if anything. Shown like a message. */
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

/** Answers within two seconds are promised; this leaves some for the way there and back. */
export const checkTimeoutMs = 1_500;

/** Runs all checks at once, each bounded by `checkTimeoutMs`. Never rejects. */
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
