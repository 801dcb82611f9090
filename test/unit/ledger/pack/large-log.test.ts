/** Packs across the boundaries of tiles: 256 leaves, and 65,536. */
import { beforeAll, expect, test } from "vitest";
import { memoryLog, moment } from "./memory-log.ts";
import { linesIn, verifyText } from "./packs.ts";
import { evidence } from "./records.ts";

const log = memoryLog({ pageSteps: 10_000 });
const batch = 250;

/** 263 seconds of 250 leaves each, 66,000 at the end. */
beforeAll(() => {
  for (let second = 0; second <= 263; second++) {
    const records = Array.from({ length: batch }, (_, index) =>
      log.makeRecord(evidence("access", { digest: index === 7 && second % 100 === 0 ? "sha256:rare" : "sha256:a" })),
    );
    log.appendRecords(records as never);
    log.clock.nowMs += 1_000;
  }
}, 60_000);

test.each([
  ["the first two tiles", 0, 2, 501],
  ["the first tile of the second level", 1, 5, 1_000],
  ["the first full tile of the second level", 260, 264, 1_000],
  ["one second", 262, 263, 250],
])("%s", async (_, from, to, leaves) => {
  const text = await log.pack({ from: moment(from), to: moment(to) });
  const { range, checkpoint } = await verifyText(text, [log.verifier()]);
  expect(checkpoint.size).toBe(66_001);
  expect(range?.leaves).toBe(leaves);
  const hashes = linesIn(text).flatMap((line) => (line.type === "entry" ? (line.gap ?? []) : []));
  expect(hashes.length).toBeLessThan(2 * 17);
});

test("leaves far from each other", async () => {
  const text = await log.pack({ field: "artifact_digest", value: "sha256:rare" });
  const indices: number[] = [];
  await verifyText(text, [log.verifier()], ({ leafIndex }) => indices.push(leafIndex));
  expect(indices).toEqual([8, 25_008, 50_008, 66_000]);
  expect(text.length).toBeLessThan(12_000);
}, 60_000);
