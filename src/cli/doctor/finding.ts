/** What `doctor` finds. */

export interface Finding {
  /** What was looked at. */
  readonly check: string;
  /** `failed`: the service does not start, or does not serve, like this. `warning`: it does, and soon or elsewhere not. */
  readonly status: "ok" | "warning" | "failed" | "skipped";
  readonly detail: string;
  /** What to do about it. */
  readonly remedy?: string;
}

export interface Check {
  readonly name: string;
  /** Says all that it finds. What it throws is a failure too. */
  readonly look: (deadline: AbortSignal) => Promise<readonly Finding[]>;
  /** Where it finds nothing to look at in time, or fails for a reason of its own. */
  readonly remedy: string;
}

/** Never rejects, and has resolved when the deadline has passed, whatever the look still waits for. */
export async function runCheck({ name, look, remedy }: Check, deadline: AbortSignal): Promise<readonly Finding[]> {
  const late = new Promise<readonly Finding[]>((resolve) => {
    const onLate = () => resolve([{ check: name, status: "failed", detail: "no answer in time", remedy }]);
    if (deadline.aborted) onLate();
    else deadline.addEventListener("abort", onLate, { once: true });
  });
  const looking = look(deadline).catch((error: unknown): readonly Finding[] => [
    { check: name, status: "failed", detail: error instanceof Error ? error.message : String(error), remedy },
  ]);
  return Promise.race([looking, late]);
}

export const ok = (check: string, detail: string): Finding => ({ check, status: "ok", detail });
export const skipped = (check: string, detail: string): Finding => ({ check, status: "skipped", detail });
export const failed = (check: string, detail: string, remedy: string): Finding => ({
  check,
  status: "failed",
  detail,
  remedy,
});
export const warning = (check: string, detail: string, remedy: string): Finding => ({
  check,
  status: "warning",
  detail,
  remedy,
});

/** What tokens and proofs forgive; a witness forgives more, and records get the time that is said. */
const toleranceMs = 30_000;
const noticeableMs = 5_000;

/** Compares this machine's clock with another's, as it was between two moments of this one. */
export function clockFinding(whose: string, theirMs: number, beforeMs: number, afterMs: number): Finding {
  const offMs = theirMs < beforeMs ? beforeMs - theirMs : Math.max(0, theirMs - afterMs);
  const seconds = Math.round(offMs / 1_000);
  const detail = `this machine's clock and ${whose}'s differ by ${seconds} s`;
  const remedy = "let both follow a time server (NTP): tokens are judged with 30 s of tolerance, records by this clock";
  if (offMs > toleranceMs) return failed("clock", detail, remedy);
  return offMs > noticeableMs ? warning("clock", detail, remedy) : ok("clock", detail);
}
