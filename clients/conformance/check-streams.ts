/** What cases of streams are made of, and how results, and what arrived over all connections, are compared. */
import assert from "node:assert/strict";
import { fromJson } from "@bufbuild/protobuf";
import { ItemOutcome } from "../../gen/platform/bulk/v1/common_pb.ts";
import { EventResultSchema, RegistrationResultSchema } from "../../gen/platform/bulk/v1/records_pb.ts";
import { assertWithin, type Expected, failed, noFaults } from "./check.ts";
import type { Step, StepAnswer, StreamItem, StreamKind, StreamStep } from "./protocol.ts";
import { itemsOf } from "./requests.ts";
import type { Seen, StreamAct } from "./script.ts";

/** Acknowledged one by one, so that it is certain what the client knows when a stream ends. */
export const oneByOne = { max_unacknowledged_items: 1 };

/** A stream that ends so when so many items have arrived. */
export function ending(
  after: number,
  by: NonNullable<StreamAct["ends"]>["by"],
  more: Partial<StreamAct> = {},
): StreamAct {
  return { does: "stream", ends: { after, by }, ...more };
}

export function opened({ calls }: Seen, count: number): void {
  assert.equal(calls.length, count, "streams that were opened");
}

/** A step of so many items, each of another resource, under keys `key-0` and so on. */
export function stream(kind: StreamKind, count: number, more: Partial<StreamStep> = {}): StreamStep {
  return { stream: kind, items: streamItems(kind, count), ...more };
}

export function streamItems(kind: StreamKind, count: number): StreamItem[] {
  const items = itemsOf(kind === "events" ? "bulk/evidence" : "bulk/artifact-registrations", count);
  return items.map((item, i) => ({ ...item, idempotency_key: `key-${i}` }));
}

/**
 * Each item has its result, in the order of the items.
 *
 * @param others members of results that are not those of an item that was answered, by place
 */
export function streamed(others: Readonly<Record<number, object>> = {}): Expected {
  return (step, asked) => {
    assert.equal(step.error, undefined, JSON.stringify(step.error));
    const { items } = asked as StreamStep;
    const results = resultsOf(step, asked);
    assert.equal(results.length, items.length, "results");
    for (const [i, result] of results.entries()) {
      const { idempotency_key: idempotencyKey } = items[i] as StreamItem;
      const answered = { outcome: ItemOutcome.ANSWERED, ...(idempotencyKey !== undefined && { idempotencyKey }) };
      assertWithin({ ...answered, ...others[i] }, result, `results[${i}]`);
    }
  };
}

/**
 * The stream was given up: the first items have their results, the others have none, and the error lists those of them
 * that had been taken, in their order.
 *
 * @param left how many were left, if that is certain
 */
export function gaveUp(
  code: string,
  reason: string,
  { answered, left }: { readonly answered: number; readonly left?: number },
): Expected {
  return (step, asked) => {
    failed(code, reason)(step, asked);
    const { items } = asked as StreamStep;
    const results = resultsOf(step, asked);
    assert.equal(results.length, items.length, "results");
    assert.deepEqual(
      results.map((result) => result !== null),
      items.map((_, i) => i < answered),
      "which items have results",
    );
    const keys = items.slice(answered).map(({ idempotency_key: key }) => key);
    const { unacknowledged = [] } = step;
    assert.deepEqual(unacknowledged, keys.slice(0, left ?? unacknowledged.length), "unacknowledged");
  };
}

function resultsOf({ results = [] }: StepAnswer, asked: Step) {
  const desc = "stream" in asked && asked.stream === "events" ? EventResultSchema : RegistrationResultSchema;
  return results.map((result) => result && fromJson<typeof EventResultSchema>(desc as never, result));
}

/**
 * Over all streams every item came through: numbered from 0, under one key each, in order, everything that was not
 * acknowledged before anything new, and each recorded once.
 *
 * @param bound how many items the client was to have unacknowledged at most: what lies further back than that had been
 *   acknowledged to its knowledge, and must not have come again
 */
export function cameThrough(seen: Seen, count: number, bound = Number.POSITIVE_INFINITY): void {
  noFaults(seen);
  const keys = new Map<bigint, string>();
  let [firstLeft, newest] = [0, -1];
  for (const { items } of seen.calls.filter(({ items }) => items.length > 0)) {
    const first = Number(items[0]?.sequence);
    assert.ok(first <= firstLeft, `item ${firstLeft} was not acknowledged, and the next stream begins with ${first}`);
    assert.ok(first > newest - bound, `item ${first} was acknowledged, and is sent again`);
    for (const [i, { sequence, key, isAcknowledged }] of items.entries()) {
      assert.equal(Number(sequence), first + i, "sequence");
      assert.equal(key, keys.get(sequence) ?? key, `key of item ${sequence}`);
      keys.set(sequence, key);
      newest = Math.max(newest, Number(sequence));
      if (isAcknowledged && Number(sequence) === firstLeft) firstLeft += 1;
    }
  }
  assert.equal(keys.size, count, "items that arrived");
  assert.equal(new Set(keys.values()).size, count, "keys");
  assert.equal(seen.records.size, count, "records");
}
