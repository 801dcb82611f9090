import { expect, test } from "vitest";
import { bufferedRandom } from "../../../src/base/ids.ts";

/** A source that counts: every byte of it is told apart from the 255 before it. */
function counting() {
  const drawn: number[] = [];
  let next = 0;
  const fill = (bytes: Uint8Array) => {
    drawn.push(bytes.byteLength);
    for (let index = 0; index < bytes.byteLength; index++) bytes[index] = next++;
    return bytes;
  };
  return { drawn, fill };
}

test("small amounts come from what was drawn at once, in order and never twice", () => {
  const { drawn, fill } = counting();
  const random = bufferedRandom(fill, 40);
  const given = Array.from({ length: 4 }, () => [...random(new Uint8Array(16))]);
  expect(given[0]).toEqual(Array.from({ length: 16 }, (_, n) => n));
  expect(given[1]).toEqual(Array.from({ length: 16 }, (_, n) => 16 + n));
  // Eight bytes were left: too few, so they are dropped.
  expect(given[2]).toEqual(Array.from({ length: 16 }, (_, n) => 40 + n));
  expect(new Set(given.flat()).size).toBe(64);
  expect(drawn).toEqual([40, 40]);
});

test("larger amounts are asked for by themselves", () => {
  const { drawn, fill } = counting();
  const random = bufferedRandom(fill, 40);
  random(new Uint8Array(17));
  random(new Uint8Array(32));
  expect(drawn).toEqual([17, 32]);
});
