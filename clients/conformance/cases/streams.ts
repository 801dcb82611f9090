/** Streams: what is sent on them, how much of it at once, and what becomes of each item. */
import assert from "node:assert/strict";
import { toJson } from "@bufbuild/protobuf";
import { ItemOutcome } from "../../../gen/platform/bulk/v1/common_pb.ts";
import { assertWithin, type Case, noFaults } from "../check.ts";
import { cameThrough, ending, oneByOne, opened, stream, streamed, streamItems } from "../check-streams.ts";
import type { StreamKind } from "../protocol.ts";
import { methods } from "../requests.ts";

const kinds: readonly StreamKind[] = ["events", "registrations"];

const sending: readonly Case[] = kinds.flatMap((kind): Case[] => [
  {
    name: `streams/${kind}`,
    says: "Sends all items on one stream, with token and certificate, numbered from 0, and hands out the result of each.",
    request: { steps: [stream(kind, 5)] },
    answers: [streamed()],
    sees(seen) {
      cameThrough(seen, 5);
      opened(seen, 1);
      const [{ items = [], certificate } = {}] = seen.calls;
      assert.ok(certificate !== undefined);
      const { input } = methods[kind === "events" ? "evidence" : "artifact-register"];
      for (const [i, { event, registration }] of streamItems(kind, 5).entries())
        assertWithin(event ?? registration, toJson(input, items[i]?.message as never), `items[${i}]`);
    },
  },
  {
    name: `streams/${kind}-keys`,
    says: "An item without an idempotency key gets one of its own, of 1 to 128 visible characters; one that is given is used.",
    request: {
      steps: [
        stream(kind, 0, {
          items: streamItems(kind, 4).map(({ idempotency_key: key, ...item }, i) =>
            i === 2 ? { ...item, idempotency_key: "order-4711/event-1" } : item,
          ),
        }),
      ],
    },
    server: { acts: [ending(4, "reset", { acknowledges: 0 })] },
    answers: [streamed()],
    sees(seen) {
      cameThrough(seen, 4);
      const keys = seen.calls.at(-1)?.items.map(({ key }) => key) ?? [];
      assert.equal(keys[2], "order-4711/event-1");
      for (const [i, key] of keys.entries()) if (i !== 2) assert.match(key, /^[\x21-\x7e]{16,128}$/);
    },
  },
  {
    name: `streams/${kind}-refused-item`,
    says: "An item that is refused has its result, as the others have theirs; the stream goes on, and it is not sent again.",
    request: { steps: [stream(kind, 4, oneByOne)] },
    server: {
      acts: [
        ending(3, "reset", {
          results: {
            1: {
              outcome: "ITEM_OUTCOME_REFUSED",
              error: { code: "already_exists", reason: "idempotency_conflict", message: "another payload" },
            },
          },
        }),
      ],
    },
    answers: [streamed({ 1: { outcome: ItemOutcome.REFUSED, error: { reason: "idempotency_conflict" } } })],
    sees(seen) {
      noFaults(seen);
      const sent = seen.calls.flatMap(({ items }) => items.map(({ sequence }) => Number(sequence)));
      assert.deepEqual(sent, [0, 1, 2, 2, 3]);
    },
  },
]);

const holding: readonly Case[] = [
  {
    name: "streams/held-back-by-items",
    says: "No more items are sent than may be unacknowledged; the next go once there is room.",
    request: { steps: [stream("events", 8, { max_unacknowledged_items: 3 })] },
    server: { acts: [{ does: "stream", holdsBack: { items: 3, ms: 400 } }] },
    answers: [streamed()],
    sees(seen) {
      cameThrough(seen, 8);
      assert.equal(seen.calls[0]?.arrivedBefore, 3, "items that arrived before the first was acknowledged");
    },
  },
  {
    name: "streams/held-back-by-bytes",
    says: "Nor more bytes; but one item may always go.",
    request: { steps: [stream("events", 3, { max_unacknowledged_bytes: 1 })] },
    server: { acts: [{ does: "stream", holdsBack: { items: 1, ms: 400 } }] },
    answers: [streamed()],
    sees(seen) {
      cameThrough(seen, 3);
      assert.equal(seen.calls[0]?.arrivedBefore, 1, "items that arrived before the first was acknowledged");
    },
  },
  {
    name: "streams/held-back-unasked",
    says: "Unless the program says otherwise 256 items may be unacknowledged.",
    request: { steps: [stream("events", 260)] },
    server: { acts: [{ does: "stream", holdsBack: { items: 256, ms: 400 } }] },
    answers: [streamed()],
    sees(seen) {
      cameThrough(seen, 260);
      assert.equal(seen.calls[0]?.arrivedBefore, 256, "items that arrived before the first was acknowledged");
    },
  },
  {
    name: "streams/no-deadline",
    says: "A stream lasts longer than a call may take.",
    request: {
      steps: [stream("events", 0, { items: streamItems("events", 4).map((item) => ({ ...item, pause_ms: 600 })) })],
      options: { deadline_ms: 1_500 },
    },
    answers: [streamed()],
    sees(seen) {
      cameThrough(seen, 4);
      opened(seen, 1);
    },
  },
];

export const streams: readonly Case[] = [...sending, ...holding];
