import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { daysTo, valuesOf } from "../src/chart.tsx";
import { csvOf } from "../src/csv.ts";
import { digestOf } from "../src/hash.ts";
import { laneOf } from "../src/pages/artifact.tsx";
import { countedPolicies } from "../src/pages/policies.tsx";
import { countsIn } from "../src/pages/principal.tsx";
import { commandOf } from "../src/pages/reports.tsx";
import { samplesIn } from "../src/pages/system.tsx";
import { changedFiles } from "../src/policies.ts";

test("a file is hashed piece by piece, with the result of sha256sum", async () => {
  const bytes = new Uint8Array(300_000).map((_, index) => index % 251);
  const seen: number[] = [];
  const digest = await digestOf(new Blob([bytes]), (read) => seen.push(read));
  expect(digest).toBe(`sha256:${createHash("sha256").update(bytes).digest("hex")}`);
  expect(seen.at(-1)).toBe(bytes.length);
  expect(await digestOf(new Blob([]))).toBe(`sha256:${createHash("sha256").digest("hex")}`);
});

test("a chart has every day of the period, the first in part, and days without a record", () => {
  const days = daysTo(new Date("2026-03-02T23:59:59Z"), 3);
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

test("an event is in the lane of its operation, whatever outcome it claims", () => {
  const summary = { operation: "protect", outcome: "denied" };
  const row = { leaf_index: 1, record_id: "x", kind: "evidence", recorded_at: "", erased: false, summary };
  expect(laneOf(row)).toBe("protect");
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

test("rows are CSV that no spreadsheet executes, in the columns of the command", () => {
  const summary = {
    ...{ principal: "=cmd", subject: "s", operation: "access", resource: { kind: "file", id: 'a "b", c' } },
    ...{ outcome: "allowed", reasons: ["x", "y"], alerts: ["break-glass"], evidence: "missing" },
  };
  const place = { leaf_index: 1, record_id: "r", kind: "decision", recorded_at: "t" };
  expect(
    csvOf([
      { ...place, erased: false, summary },
      { ...place, erased: true },
    ]),
  ).toBe(
    "time,who,did,resource,artifact,result,why,evidenced,record\n" +
      `t,'=cmd (s),decision access,"file/a ""b"", c",,allowed,"x, y, alert break-glass",no,r\n` +
      "t,,decision,,,ERASED,,,r\n",
  );
});

test("the command of a report has its period, quoted for a shell", () => {
  expect(commandOf("acme", { template: "access", last: "30d" })).toBe(
    "svc-platform-api ledger report --tenant acme --template access --last 30d --out report.html --csv",
  );
  const days = { from: "2026-01-01T00:00:00Z", to: "2026-02-01T00:00:00Z" };
  expect(commandOf("a b", { template: "erasures", ...days })).toContain(
    "--tenant 'a b' --template erasures --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z",
  );
  // A link holds all but the tenant.
  expect(commandOf("acme", { template: "$(a)", from: "1;b", to: "2'`c`" })).toContain(
    " --template '$(a)' --from '1;b' --to '2'\\''`c`' --out ",
  );
});

test("values are counted, the most frequent first", () => {
  expect(countsIn(["a", "b", "b"])).toEqual({
    records: 3,
    values: [
      { value: "b", records: 2 },
      { value: "a", records: 1 },
    ],
  });
});

test("policies are sorted by their decisions, unused ones last, and other reasons apart", () => {
  const policy = (id: string, layer = "tenant") => ({
    layer,
    set: "default",
    id,
    file: "f",
    line: 1,
    effect: "permit",
  });
  const counted = {
    records: 9,
    values: [
      { value: "tenant/a", records: 2 },
      { value: "tenant/gone", records: 3 },
      { value: "platform/b", records: 4 },
    ],
  };
  const { rows, others } = countedPolicies([policy("never"), policy("a"), policy("b", "platform")], counted);
  expect(rows.map(({ policy: { id }, decisions }) => [id, decisions])).toEqual([
    ["b", 4],
    ["a", 2],
    ["never", 0],
  ]);
  expect(others).toEqual([{ value: "tenant/gone", records: 3 }]);
});

test("a draft's changed files are those that were added, removed or edited", () => {
  const before = { a: "1", b: "2", c: "3" };
  expect(changedFiles(before, { b: "2", c: "4", d: "" })).toEqual(["a", "c", "d"]);
  expect(changedFiles(before, { ...before })).toEqual([]);
});
