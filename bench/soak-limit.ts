/** A session client that asks far too often, at all gateways at once: how often is it let through? */
import { setTimeout as delay } from "node:timers/promises";
import type { SoakClient } from "./soak-callers.ts";
import { callRest } from "./soak-calls.ts";

/** Attempts of one client from one address in one window, as `src/domain/session.ts` has them. */
export const attemptsOfWindow = 30;
const windowMs = 60_000;
/** Share by which what is let through may differ from the limit. */
const tolerance = 0.1;
/** Pause between two attempts of one prober, in milliseconds. */
const pauseMs = 25;
const probers = 4;
const address = "192.0.2.200";

export interface LimitReport {
  /** Attempts that were let through, by window. */
  readonly windows: readonly number[];
  readonly refused: number;
  readonly problems: readonly string[];
}

/** Starts to ask. `stop` resolves with what came of it. */
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
      // Whether it was counted before its gateway died, nobody knows.
      else if (outcome === undefined || outcome === "store_unavailable") unanswered += 1;
      else others.add(outcome);
      await delay(pauseMs);
    }
  };
  const all = Promise.all(Array.from({ length: probers }, probe));
  return {
    /** Attempts refused so far. */
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

/** An attempt that was let through. It was counted some time between. */
interface Granted {
  readonly startedMs: number;
  readonly endedMs: number;
}

interface Window {
  /** When it ends at the earliest. */
  readonly endMs: number;
  /** Attempts that were counted in it for certain. */
  certain: number;
  /** And those that were under way when it ended. */
  possible: number;
}

/** A window begins with the first attempt that is let through after the one before has ended. */
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
  // The last window may have been cut short; what nobody answered may have been counted.
  const full = windows.length > 1 ? windows.slice(0, -1) : windows;
  const fewest = Math.min(...full.map(({ possible }) => possible)) + unanswered;
  if (refused > 0 && fewest < attemptsOfWindow * (1 - tolerance))
    problems.push(`only ${fewest} attempts were let through in one window of ${attemptsOfWindow}`);
  return problems;
}
