/** Trying again: what, when, how often. */
import assert from "node:assert/strict";
import { answered, type Case, call, counts, failed, noFaults } from "../check.ts";
import type { Act, Seen } from "../script.ts";

const plan = call("protection-plan");
const unavailable = { does: "refuse", code: "unavailable", reason: "overloaded" } as const;
const limited = { does: "refuse", code: "resource_exhausted", reason: "rate_limited" } as const;
const times = (count: number, act: Act): Act[] => Array.from({ length: count }, () => act);

/** At least so long between the answer to the first attempt and the second. */
function waited({ calls: [first, second] }: Seen, leastMs: number): void {
  const gapMs = (second?.atMs ?? 0) - (first?.answeredAtMs ?? first?.atMs ?? 0);
  // Timers may be early by a little.
  assert.ok(gapMs >= leastMs - 50, `the second attempt came after ${Math.round(gapMs)} ms`);
}

export const retries: readonly Case[] = [
  {
    name: "retries/unavailable-then-answer",
    says: "A call that the service could not take now is made again.",
    request: { steps: [plan] },
    server: { acts: times(2, unavailable) },
    answers: [answered({ decision: { allow: true } })],
    sees(seen) {
      noFaults(seen);
      counts(seen, 3);
    },
  },
  {
    name: "retries/as-often-as-allowed",
    says: "It is made no more often than allowed, and fails with the last error.",
    request: { steps: [plan], options: { max_attempts: 3 } },
    server: { acts: times(9, unavailable) },
    answers: [failed("unavailable", "overloaded", { request_id: "request-42" })],
    sees: (seen) => counts(seen, 3),
  },
  {
    name: "retries/no-sooner-than-told",
    says: "Where the service says how long to wait, it is not called sooner, whatever the client's own bounds are.",
    request: { steps: [plan] },
    server: { acts: [{ ...unavailable, retryAfterSeconds: 1 }] },
    answers: [answered()],
    sees(seen) {
      counts(seen, 2);
      waited(seen, 1_000);
    },
  },
  {
    name: "retries/rate-limited-and-told",
    says: "`resource_exhausted` is tried again where the service says how long to wait.",
    request: { steps: [plan] },
    server: { acts: [{ ...limited, retryAfterSeconds: 1 }] },
    answers: [answered()],
    sees(seen) {
      counts(seen, 2);
      waited(seen, 1_000);
    },
  },
  {
    name: "retries/rate-limited-and-not-told",
    says: "`resource_exhausted` without such a word is final.",
    request: { steps: [plan] },
    server: { acts: [limited] },
    answers: [failed("resource_exhausted", "rate_limited")],
    sees: (seen) => counts(seen, 1),
  },
  {
    name: "retries/wait-beyond-the-deadline",
    says: "A wait that would outlast the deadline is not begun: the call fails at once, with the service's error.",
    request: { steps: [plan], options: { deadline_ms: 40_000 } },
    server: { acts: [{ ...unavailable, retryAfterSeconds: 3_600 }] },
    answers: [failed("unavailable", "overloaded")],
    sees(seen, tookMs) {
      counts(seen, 1);
      assert.ok(tookMs < 25_000, `it failed after ${Math.round(tookMs)} ms`);
    },
  },
  ...(
    [
      ["invalid_argument", "invalid_request"],
      ["permission_denied", "missing_scope"],
      ["already_exists", "idempotency_conflict"],
      ["internal", "internal"],
      ["unimplemented", "method_not_allowed"],
    ] as const
  ).map(
    ([code, reason]): Case => ({
      name: `retries/not-after-${code}`,
      says: "What would be refused again is not tried again.",
      request: { steps: [plan] },
      server: { acts: [{ does: "refuse", code, reason }] },
      answers: [failed(code, reason)],
      sees: (seen) => counts(seen, 1),
    }),
  ),
  {
    name: "retries/reset-before-it-is-read",
    says: "A connection that breaks is `unavailable`: the call is made again.",
    request: { steps: [plan, plan] },
    server: { acts: [{ does: "answer" }, { does: "reset" }] },
    answers: [answered(), answered()],
  },
  {
    name: "retries/reset-every-time",
    says: "A connection that always breaks makes the call fail as `unavailable`, without a reason.",
    request: { steps: [plan], options: { max_attempts: 3 } },
    server: { acts: times(40, { does: "reset" }) },
    answers: [failed("unavailable")],
  },
  {
    name: "retries/goaway",
    says: "A connection that the service ends in good order costs no call.",
    request: { steps: [plan, { ...plan, pause_ms: 300 }] },
    server: { acts: [{ does: "answer", afterwards: "goaway" }] },
    answers: [answered(), answered()],
    sees: (seen) => counts(seen, 2),
  },
  {
    name: "retries/restart",
    says: "A service that has restarted is called over a new connection.",
    request: { steps: [plan, { ...plan, pause_ms: 1_500 }], options: { deadline_ms: 20_000, max_attempts: 30 } },
    server: { acts: [{ does: "answer", afterwards: "restart" }] },
    answers: [answered(), answered()],
  },
];
