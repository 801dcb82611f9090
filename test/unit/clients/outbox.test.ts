import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import fc from "fast-check";
import { expect, test } from "vitest";
import { Outbox, type Sent, type Settled } from "../../../clients/typescript/src/bulk/outbox.ts";
import { ReceiptSchema } from "../../../gen/platform/sdk/v1/common_pb.ts";

interface Item {
  readonly idempotencyKey: string;
}

const item = (idempotencyKey: string): Item => ({ idempotencyKey });

/** Lets everything happen that waits for nothing. */
const settle = () => new Promise<void>((done) => setImmediate(done));

test("items are sent in order, within bounds, each once, whatever is added, acknowledged and restarted", async () => {
  const step = fc.oneof(
    { weight: 5, arbitrary: fc.record({ does: fc.constant("add" as const), bytes: fc.integer({ min: 1, max: 40 }) }) },
    { weight: 4, arbitrary: fc.record({ does: fc.constant("take" as const) }) },
    { weight: 4, arbitrary: fc.record({ does: fc.constant("acknowledge" as const), count: fc.nat({ max: 4 }) }) },
    { weight: 1, arbitrary: fc.record({ does: fc.constant("rewind" as const) }) },
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 60 }),
      fc.integer({ min: 1, max: 5 }),
      fc.nat({ max: 60 }),
      async (steps, maxItems, maxBytes) => {
        const outbox = new Outbox<Item, Item>({ maxUnacknowledgedItems: maxItems, maxUnacknowledgedBytes: maxBytes });
        const sizes: number[] = [];
        const sent: Sent<Item>[] = [];
        const results: string[] = [];
        let handedOut: bigint[] = [];
        let acknowledged = 0;
        for (const each of steps) {
          if (each.does === "add") {
            const key = `key-${sizes.length}`;
            sizes.push(each.bytes);
            void outbox.add(item(key), each.bytes).then((one) => {
              sent.push(one);
              void one.result.then(({ idempotencyKey }) => results.push(idempotencyKey));
            });
          } else if (each.does === "take") {
            const entry = outbox.next();
            if (entry === undefined) continue;
            // What is not acknowledged comes before anything new, and nothing is left out.
            expect(entry.sequence).toBe(BigInt(acknowledged + handedOut.length));
            expect(entry.item.idempotencyKey).toBe(`key-${entry.sequence}`);
            handedOut.push(entry.sequence);
          } else if (each.does === "rewind") {
            outbox.rewind();
            handedOut = [];
          } else {
            const now = handedOut.splice(0, each.count);
            outbox.acknowledge(now.map((sequence) => ({ sequence, result: item(`key-${sequence}`) })));
            acknowledged += now.length;
          }
          await settle();
          const left = outbox.left();
          expect(left.map(({ idempotencyKey }) => idempotencyKey)).toEqual(
            left.map((_, i) => `key-${acknowledged + i}`),
          );
          expect(left.length).toBeLessThanOrEqual(maxItems);
          const bytes = sizes.slice(acknowledged, acknowledged + left.length).reduce((sum, size) => sum + size, 0);
          expect(left.length <= 1 || bytes <= maxBytes).toBe(true);
          // No caller waits for longer than needed: the next has no room.
          const next = sizes[acknowledged + left.length];
          expect(outbox.isFull).toBe(next !== undefined);
          if (next !== undefined) expect(left.length === maxItems || bytes + next > maxBytes).toBe(true);
        }
        expect(sent.map(({ sequence }) => sequence)).toEqual(sent.map((_, i) => BigInt(i)));
        expect(results).toEqual(Array.from({ length: acknowledged }, (_, i) => `key-${i}`));
      },
    ),
    { numRuns: 300 },
  );
});

/** Three items, two of them handed out. */
async function twoHandedOut() {
  const outbox = new Outbox<Item, Item>({});
  const sent = [];
  for (const key of ["a", "b", "c"]) sent.push(await outbox.add(item(key), 1));
  outbox.next();
  outbox.next();
  return { outbox, sent };
}

test.each<[string, readonly { readonly sequence: bigint; readonly result?: Item }[]]>([
  ["of what was never sent", [{ sequence: 7n, result: item("h") }]],
  [
    "of what was not sent yet",
    [0n, 1n, 2n].map((sequence) => ({ sequence, result: item("abc"[Number(sequence)] ?? "") })),
  ],
  ["out of order", [{ sequence: 1n, result: item("b") }]],
  ["twice", [0n, 0n].map((sequence) => ({ sequence, result: item("a") }))],
  ["under another key", [{ sequence: 0n, result: item("b") }]],
  ["without a result", [{ sequence: 0n }]],
  [
    "that is wrong behind one that is right",
    [
      { sequence: 0n, result: item("a") },
      { sequence: 5n, result: item("b") },
    ],
  ],
])("an acknowledgement %s settles nothing", async (_name, acknowledgements) => {
  const { outbox, sent } = await twoHandedOut();
  const settled: unknown[] = [];
  for (const { result } of sent) void result.then((one) => settled.push(one));
  const error = (() => {
    try {
      outbox.acknowledge(acknowledgements);
    } catch (thrown) {
      return ConnectError.from(thrown);
    }
    return undefined;
  })();
  expect(error?.code).toBe(Code.Internal);
  await settle();
  expect(settled).toEqual([]);
  expect(outbox.left()).toHaveLength(3);
});

/** A result whose record is at this place of the log. */
const recorded = (idempotencyKey: string, leafIndex: bigint) => ({
  idempotencyKey,
  ingestion: { receipt: create(ReceiptSchema, { logOrigin: "logs.example.com/0a1b", leafIndex }) },
});

test.each([
  ["the record of an item with another key is refused", "b", 4n, false],
  ["the record of an item with the same key is taken", "a", 4n, true],
  ["another record is taken", "b", 5n, true],
])("%s", async (_name, key, leafIndex, isTaken) => {
  const outbox = new Outbox<Item, Settled>({});
  for (const each of ["a", key]) await outbox.add(item(each), 1);
  for (let entry = outbox.next(); entry !== undefined; entry = outbox.next());
  outbox.acknowledge([{ sequence: 0n, result: recorded("a", 4n) }]);
  const acknowledge = () => outbox.acknowledge([{ sequence: 1n, result: recorded(key, leafIndex) }]);
  if (isTaken) acknowledge();
  else expect(acknowledge).toThrow("the record of item 1 is that of another item");
  expect(outbox.isEmpty).toBe(isTaken);
});

test("a waiting caller gets the failure; unsent items stay in the list", async () => {
  const outbox = new Outbox<Item, Item>({ maxUnacknowledgedItems: 1 });
  const { result } = await outbox.add(item("a"), 1);
  const waiting = outbox.add(item("b"), 1);
  outbox.fail(new Error("over"));
  await expect(result).rejects.toThrow("over");
  await expect(waiting).rejects.toThrow("over");
  expect(outbox.left()).toEqual([item("a")]);
});

test.each([0, -1, Number.NaN])("%d items are no valid bound", (maxUnacknowledgedItems) => {
  expect(() => new Outbox({ maxUnacknowledgedItems })).toThrow(RangeError);
});
