/** What is recorded is recorded once. */
import assert from "node:assert/strict";
import { answered, type Case, call, counts, noFaults } from "../check.ts";
import type { Route } from "../protocol.ts";
import type { Seen } from "../script.ts";

const unavailable = { does: "refuse", code: "unavailable", reason: "store_unavailable" } as const;
const keysOf = ({ calls }: Seen) => calls.map(({ idempotencyKey }) => idempotencyKey);

const recording: readonly Route[] = ["artifact-register", "evidence"];

export const idempotency: readonly Case[] = recording.flatMap((route): Case[] => [
  {
    name: `idempotency/${route}-over-attempts`,
    says: "A registration or event carries an idempotency key, the same over all attempts, of 1 to 128 visible characters.",
    request: { steps: [call(route)] },
    server: { acts: [unavailable, unavailable] },
    answers: [answered()],
    sees(seen) {
      noFaults(seen);
      counts(seen, 3);
      const [key, ...others] = keysOf(seen);
      assert.match(key ?? "", /^[\x21-\x7e]{16,128}$/);
      assert.deepEqual(others, [key, key]);
    },
  },
  {
    name: `idempotency/${route}-of-each-call`,
    says: "Another call has another key.",
    request: { steps: [call(route), call(route)] },
    answers: [answered(), answered()],
    sees(seen) {
      const [first, second] = keysOf(seen);
      assert.ok(first !== undefined && second !== undefined);
      assert.notEqual(first, second);
      assert.equal(seen.records.size, 2);
    },
  },
  {
    name: `idempotency/${route}-given`,
    says: "A key that the caller gives is used.",
    request: { steps: [call(route, { idempotency_key: "order-4711/event-1" })] },
    server: { acts: [unavailable] },
    answers: [answered()],
    sees: (seen) => assert.deepEqual(keysOf(seen), ["order-4711/event-1", "order-4711/event-1"]),
  },
  {
    name: `idempotency/${route}-reset-after-commit`,
    says: "A call whose answer was lost on the way is made again with its key, and recorded once.",
    request: { steps: [call(route)] },
    server: { acts: [{ does: "commit-and-reset" }] },
    answers: [answered()],
    sees(seen) {
      counts(seen, 2);
      assert.equal(seen.records.size, 1, "records");
    },
  },
]);
