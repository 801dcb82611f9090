/** Streams that end: which are opened again, how often and from which item; which are not, and their errors. */
import assert from "node:assert/strict";
import type { Case } from "../check.ts";
import { cameThrough, ending, gaveUp, oneByOne, opened, stream, streamed, streamItems } from "../check-streams.ts";
import { logKey } from "../log.ts";
import type { Act, Refusal } from "../script.ts";

const unavailable = { does: "refuse", code: "unavailable", reason: "overloaded" } as const;
const times = (count: number, act: Act): Act[] => Array.from({ length: count }, () => act);

const refusals: readonly (readonly [name: string, refusal: Omit<Refusal, "does">])[] = [
  ["unavailable", { code: "unavailable", reason: "overloaded" }],
  ["deadline-exceeded", { code: "deadline_exceeded", reason: "request_timeout" }],
  ["rate-limited-and-told", { code: "resource_exhausted", reason: "rate_limited", retryAfterSeconds: 1 }],
  ["expired-token", { code: "unauthenticated", reason: "expired_token" }],
];

/** A restart takes longer than a few pauses do that chance makes short. */
const options = { max_attempts: 30 };

const resuming: readonly Case[] = [
  ...(["reset", "goaway", "ok", "restart"] as const).map((by) => [by, by] as const),
  ...refusals,
].flatMap(([name, by]): Case[] => [
  {
    name: `streams/resumed-after-${name}`,
    says: "After a cut another stream is opened, which begins with the first item that was not acknowledged; none that was is sent again.",
    request: { steps: [stream("events", 6, oneByOne)], options },
    server: { acts: [ending(3, by, { acknowledges: 2 })] },
    answers: [streamed()],
    sees: (seen) => cameThrough(seen, 6, 1),
  },
  {
    name: `streams/resumed-from-the-start-after-${name}`,
    says: "What was recorded and not acknowledged is sent again under its key, in the same order, before anything new.",
    request: { steps: [stream("registrations", 9, { max_unacknowledged_items: 4 })], options },
    server: { acts: [ending(4, by, { acknowledges: 0 })] },
    answers: [streamed()],
    sees: (seen) => cameThrough(seen, 9, 4),
  },
]);

const attempts: readonly Case[] = [
  {
    name: "streams/not-opened-at-first",
    says: "A stream that is not taken now is opened again.",
    request: { steps: [stream("events", 3)] },
    server: { acts: times(2, unavailable) },
    answers: [streamed()],
    sees(seen) {
      cameThrough(seen, 3);
      opened(seen, 3);
    },
  },
  {
    name: "streams/no-sooner-than-told",
    says: "Where the service says how long to wait, no stream is opened sooner.",
    request: { steps: [stream("events", 3)] },
    server: { acts: [{ ...unavailable, retryAfterSeconds: 1 }] },
    answers: [streamed()],
    sees(seen) {
      cameThrough(seen, 3);
      const [first, second] = seen.calls;
      const gapMs = (second?.atMs ?? 0) - (first?.answeredAtMs ?? first?.atMs ?? 0);
      // Timers may be early by a little.
      assert.ok(gapMs >= 950, `the second stream came after ${Math.round(gapMs)} ms`);
    },
  },
  {
    name: "streams/as-often-as-allowed",
    says: "It is opened no more often without any acknowledgement than a call is attempted, and given up with the last error.",
    request: { steps: [stream("events", 3)], options: { max_attempts: 3 } },
    server: { acts: times(9, unavailable) },
    answers: [gaveUp("unavailable", "overloaded", { answered: 0 })],
    sees: (seen) => opened(seen, 3),
  },
  {
    name: "streams/cut-as-often-as-allowed",
    says: "A stream that ended without having acknowledged anything is an attempt; when it ended in good order, the error is `unavailable`.",
    request: { steps: [stream("events", 2)], options: { max_attempts: 3 } },
    server: { acts: times(9, ending(2, "ok", { acknowledges: 0 })) },
    answers: [gaveUp("unavailable", "", { answered: 0, left: 2 })],
    sees: (seen) => opened(seen, 3),
  },
  {
    name: "streams/attempts-count-anew",
    says: "An acknowledgement restarts the count of attempts: the stream that carried it did not fail.",
    request: { steps: [stream("events", 6, oneByOne)], options: { max_attempts: 1 } },
    server: { acts: times(5, ending(2, { code: "unavailable", reason: "overloaded" }, { acknowledges: 1 })) },
    answers: [streamed()],
    sees(seen) {
      cameThrough(seen, 6, 1);
      opened(seen, 6);
    },
  },
  {
    name: "streams/given-up-later",
    says: "After an acknowledgement as many streams may fail as before it; then those whose items were acknowledged have their results, and the others are told.",
    request: { steps: [stream("events", 4, oneByOne)], options: { max_attempts: 2 } },
    server: { acts: [ending(3, "reset", { acknowledges: 2 }), ...times(9, unavailable)] },
    answers: [gaveUp("unavailable", "overloaded", { answered: 2, left: 1 })],
    sees: (seen) => opened(seen, 3),
  },
  {
    name: "streams/given-up-after-empty-acknowledgements",
    says: "A stream that acknowledged no item has failed, even if it sent an acknowledgement.",
    request: { steps: [stream("events", 3)], options: { max_attempts: 2 } },
    server: {
      acts: times(9, ending(1, { code: "unavailable", reason: "overloaded" }, { startsEmpty: true, acknowledges: 0 })),
    },
    answers: [gaveUp("unavailable", "overloaded", { answered: 0 })],
    sees: (seen) => opened(seen, 2),
  },
  ...(
    [
      ["permission_denied", "missing_scope"],
      ["unauthenticated", "invalid_token"],
      ["invalid_argument", "invalid_request"],
      ["resource_exhausted", "rate_limited"],
      ["unimplemented", "method_not_allowed"],
    ] as const
  ).flatMap(([code, reason]): Case[] => [
    {
      name: `streams/not-opened-after-${reason}`,
      says: "What would be refused again is not tried again: every send fails.",
      request: { steps: [stream("events", 3)] },
      server: { acts: times(9, { does: "refuse", code, reason }) },
      answers: [gaveUp(code, reason, { answered: 0 })],
      sees: (seen) => opened(seen, 1),
    },
    {
      name: `streams/given-up-after-${reason}`,
      says: "Nor in the middle of a stream: what was acknowledged has its result.",
      request: { steps: [stream("registrations", 5, oneByOne)] },
      server: { acts: [ending(3, { code, reason }, { acknowledges: 2 })] },
      answers: [gaveUp(code, reason, { answered: 2, left: 1 })],
      sees: (seen) => opened(seen, 1),
    },
  ]),
  {
    name: "streams/idle",
    says: "A stream that the service ended with nothing left is no error; another is opened when there is something to send.",
    request: {
      steps: [
        stream("events", 0, {
          items: streamItems("events", 3).map((item, i) => ({ ...item, ...(i === 2 && { pause_ms: 2_500 }) })),
        }),
      ],
      options: { max_attempts: 1 },
    },
    server: { acts: times(9, { does: "stream", idleMs: 700 }) },
    answers: [streamed()],
    sees(seen) {
      cameThrough(seen, 3);
      opened(seen, 2);
    },
  },
  {
    name: "streams/expired-token",
    says: "After `expired_token` the next stream has another token.",
    request: { steps: [stream("events", 3, oneByOne)] },
    server: { acts: [ending(2, { code: "unauthenticated", reason: "expired_token" }, { acknowledges: 1 })] },
    answers: [streamed()],
    sees(seen) {
      cameThrough(seen, 3, 1);
      assert.deepEqual(
        seen.calls.map(({ token }) => token),
        ["token-1", "token-2"],
      );
    },
  },
  {
    name: "streams/dpop",
    says: "Each stream has a proof of its own; the next proof carries the nonce that the service asks for.",
    request: { steps: [stream("events", 3, oneByOne)], dpop: true },
    server: { nonces: ["first", "second"], acts: [{ does: "answer" }, ending(2, "reset", { acknowledges: 1 })] },
    answers: [streamed()],
    sees({ calls, records }) {
      const proofs = calls.flatMap(({ proof }) => proof ?? []);
      assert.equal(new Set(proofs.map(({ jti }) => jti)).size, proofs.length, "proofs");
      assert.equal(calls.at(-1)?.proof?.nonce, "second");
      assert.equal(records.size, 3);
    },
  },
];

const lies: readonly Case[] = (["events", "registrations"] as const).flatMap((kind) =>
  (["unknown-sequence", "acknowledged-before", "out-of-order", "another-key", "another-items-record"] as const).map(
    (lie) => ({
      name: `streams/${kind}-${lie}`,
      says: "An acknowledgement of what was not sent, or is acknowledged already, or is not the next, or has another key, or has the record of an item with another key, ends the stream as `internal`: nothing in its message is taken for acknowledged.",
      request: { steps: [stream(kind, 3)] },
      server: {
        receipts: { key: logKey("logs.example.com/0a1b") },
        acts: [{ does: "stream", holdsBack: { items: 3, ms: 0 }, lies: lie }],
      },
      answers: [gaveUp("internal", "", { answered: 0, left: 3 })],
      sees: (seen) => opened(seen, 1),
    }),
  ),
);

export const streamAttempts: readonly Case[] = [...resuming, ...attempts, ...lies];
