/** How long a call may take. */
import assert from "node:assert/strict";
import { answered, type Case, call, failed } from "../check.ts";

/** No call of this theme has a deadline of more than two seconds; a busy machine may take its time. */
const soon = (tookMs: number) => assert.ok(tookMs < 20_000, `it took ${Math.round(tookMs)} ms`);

export const deadlines: readonly Case[] = [
  {
    name: "deadlines/slow-answer",
    says: "A call that is not answered in time fails as `deadline_exceeded`, in time.",
    request: { steps: [call("policy-resolve")], options: { deadline_ms: 1_500, max_attempts: 1 } },
    server: { acts: [{ does: "answer", afterMs: 60_000 }] },
    answers: [failed("deadline_exceeded")],
    sees: (_seen, tookMs) => soon(tookMs),
  },
  {
    name: "deadlines/not-tried-again",
    says: "A deadline that has passed has passed for all attempts.",
    request: { steps: [call("policy-resolve")], options: { deadline_ms: 1_500, max_attempts: 10 } },
    server: { acts: Array.from({ length: 10 }, () => ({ does: "answer", afterMs: 60_000 }) as const) },
    answers: [failed("deadline_exceeded")],
    sees(seen, tookMs) {
      soon(tookMs);
      // On a busy machine the deadline may pass before any attempt arrives.
      assert.ok(seen.calls.length <= 1, `${seen.calls.length} attempts`);
    },
  },
  {
    name: "deadlines/covers-all-attempts",
    says: "Attempts, pauses and tokens share one deadline.",
    request: {
      steps: [call("policy-resolve")],
      options: { deadline_ms: 1_500, max_attempts: 1_000, initial_backoff_ms: 50, max_backoff_ms: 100 },
    },
    server: {
      acts: Array.from(
        { length: 1_000 },
        () => ({ does: "refuse", code: "unavailable", reason: "overloaded", afterMs: 20 }) as const,
      ),
    },
    answers: [
      (step, call) => {
        const { error } = step;
        // Where the deadline falls into a pause, the last refusal is the error.
        const reason = error?.code === "unavailable" ? "overloaded" : "";
        failed(["deadline_exceeded", "unavailable"], reason)(step, call);
      },
    ],
    sees: (_seen, tookMs) => soon(tookMs),
  },
  {
    name: "deadlines/slow-issuer",
    says: "An issuer that keeps the call waiting is within the deadline too.",
    request: { steps: [call("policy-resolve")], options: { deadline_ms: 1_500, max_attempts: 1 } },
    issuer: { acts: [{ does: "grant", afterMs: 60_000 }] },
    answers: [failed("deadline_exceeded")],
    sees: (_seen, tookMs) => soon(tookMs),
  },
  {
    name: "deadlines/of-each-call",
    says: "The next call has a deadline of its own.",
    request: { steps: [call("whoami"), call("whoami", { pause_ms: 2_000 })], options: { deadline_ms: 1_900 } },
    server: { acts: [{ does: "answer" }, { does: "answer" }] },
    answers: [answered(), answered()],
  },
];
