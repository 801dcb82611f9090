/** A session client that exceeds the rate limit, on all gateways at once: how many attempts are granted? */
import { setTimeout as delay } from "node:timers/promises";
import type { SoakClient } from "./soak-callers.ts";
import { callRest } from "./soak-calls.ts";

/** Attempts of one client from one address in one window, as in `src/domain/session.ts`. */
export const attemptsOfWindow = 30;
const windowMs = 60_000;
/** Allowed deviation from the limit, as a share. */
const tolerance = 0.1;
const pauseMs = 25;
const probers = 4;
const address = "192.0.2.200";

export interface LimitReport {
  readonly windows: readonly number[];
  readonly refused: number;
  readonly problems: readonly string[];
}

/** Starts the probers. `stop` resolves with the result. */
export function startLimitProbe(urls: readonly string[], { tenantId, clientId, secret }: SoakClient) {
  const body = { tenant_id: tenantId, client_id: clientId, client_secret: secret };
  const granted: Granted[] = [];
  const others = new Set<string>();
  let [refused, unanswered, turn, stopping] = [0, 0, 0, false];
  const probe = async () => {
    while (!stopping) {
      const url = urls[turn++ % urls.length];
      const startedMs = performance.now();
      const call = { route: "/v1/sdk/session", rpc: "", headers: { "x-forwarded-for": address }, body };
      const outcome = url === undefined ? undefined : await callRest({ url, ...call });
      if (typeof outcome === "object") granted.push({ startedMs, endedMs: performance.now() });
      else if (outcome === "rate_limited") refused += 1;
      // It is unknown whether it was counted before its gateway died.
      else if (outcome === undefined || outcome === "store_unavailable") unanswered += 1;
      else others.add(outcome);
      await delay(pauseMs);
    }
  };
  const all = Promise.all(Array.from({ length: probers }, probe));
  return {
    refused: () => refused,
    async stop(): Promise<LimitReport> {
      stopping = true;
      await all;
      const windows = windowsOf(granted.sort((a, b) => a.startedMs - b.startedMs));
      const problems = [...limitProblems(windows, refused, unanswered), ...others];
      return { windows: windows.map(({ possible }) => possible), refused, problems };
    },
  };
}

/** A granted attempt. It was counted at some time in between. */
interface Granted {
  readonly startedMs: number;
  readonly endedMs: number;
}

interface Window {
  /** The earliest time at which it ends. */
  readonly endMs: number;
  /** Attempts that were certainly counted in it. */
  certain: number;
  /** The same and those that were in flight when it ended. */
  possible: number;
}

/** A window begins with the first granted attempt after the previous one has ended. */
function windowsOf(granted: readonly Granted[]): readonly Window[] {
  const windows: Window[] = [];
  for (const { startedMs, endedMs } of granted) {
    const last = windows.at(-1);
    if (last === undefined || startedMs >= last.endMs) {
      windows.push({ endMs: startedMs + windowMs, certain: 1, possible: 1 });
      continue;
    }
    last.possible += 1;
    if (endedMs < last.endMs) last.certain += 1;
  }
  return windows;
}

function limitProblems(windows: readonly Window[], refused: number, unanswered: number): string[] {
  const problems = windows
    .filter(({ certain }) => certain > attemptsOfWindow * (1 + tolerance))
    .map(({ certain }) => `${certain} attempts were let through in one window of ${attemptsOfWindow}`);
  // The last window may be incomplete; unanswered attempts may have been counted.
  const full = windows.length > 1 ? windows.slice(0, -1) : windows;
  const fewest = Math.min(...full.map(({ possible }) => possible)) + unanswered;
  if (refused > 0 && fewest < attemptsOfWindow * (1 - tolerance))
    problems.push(`only ${fewest} attempts were let through in one window of ${attemptsOfWindow}`);
  return problems;
}
