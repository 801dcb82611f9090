import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { digestOf } from "../src/hash.ts";
import { laneOf } from "../src/pages/artifact.tsx";
import { daysTo, valuesOf } from "../src/pages/overview.tsx";
import { samplesIn } from "../src/pages/system.tsx";

test("a file is hashed piece by piece, as sha256sum does", async () => {
  const bytes = new Uint8Array(300_000).map((_, index) => index % 251);
  const seen: number[] = [];
  const digest = await digestOf(new Blob([bytes]), (read) => seen.push(read));
  expect(digest).toBe(`sha256:${createHash("sha256").update(bytes).digest("hex")}`);
  expect(seen.at(-1)).toBe(bytes.length);
  expect(await digestOf(new Blob([]))).toBe(`sha256:${createHash("sha256").digest("hex")}`);
});

test("a chart has every day, also those without a record, across the end of a month", () => {
  const days = daysTo(new Date("2026-03-02T23:59:59Z"), 4);
  expect(days).toEqual(["2026-02-27", "2026-02-28", "2026-03-01", "2026-03-02"]);
  const counted = { records: 5, values: [{ value: "2026-03-01", records: 5 }] };
  expect(valuesOf(days, counted)).toEqual([0, 0, 5, 0]);
});

test.each([
  [{ outcome: "denied", operation: "access" }, "denied"],
  [{ operation: "unwrap", outcome: "allowed" }, "access"],
  [{ operation: "rewrap" }, "rewrap"],
  [{ operation: "wrap" }, "protect"],
  [{}, "protect"],
])("%o is in the lane %s", (summary, lane) => {
  const row = { leaf_index: 1, record_id: "x", kind: "decision", recorded_at: "", erased: false, summary };
  expect(laneOf(row)).toBe(lane);
});

test("metrics are read with their help, without the buckets of histograms", () => {
  const text = [
    "# HELP a_seconds Time.",
    "# TYPE a_seconds histogram",
    'a_seconds_bucket{le="1"} 1',
    "a_seconds_sum 0.5",
    '# HELP b Labels with "quotes" and { braces }.',
    'b{route="/x y",other="}"} 2',
    "",
  ].join("\n");
  expect(samplesIn(text)).toEqual([
    { name: "a_seconds_sum", labels: "", value: "0.5", help: "Time." },
    { name: "b", labels: '{route="/x y",other="}"}', value: "2", help: 'Labels with "quotes" and { braces }.' },
  ]);
});
