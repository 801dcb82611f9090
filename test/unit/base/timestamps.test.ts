import fc from "fast-check";
import { expect, test } from "vitest";
import { isZeroTime, parseTimestamp } from "../../../src/base/text-forms.ts";

test.each([
  ["1985-04-12T23:20:50.52Z", 482_196_050_520],
  ["1996-12-19T16:39:57-08:00", 851_042_397_000],
  ["1937-01-01T12:00:27.87+00:20", Date.UTC(1937, 0, 1, 11, 40, 27, 870)],
  ["2026-03-01t12:00:00z", Date.UTC(2026, 2, 1, 12)],
  ["2026-03-01T12:00:00.123456789Z", Date.UTC(2026, 2, 1, 12, 0, 0, 123)],
  ["2024-02-29T00:00:00Z", Date.UTC(2024, 1, 29)],
  ["2000-02-29T00:00:00-00:00", Date.UTC(2000, 1, 29)],
  ["0001-01-01T00:00:00Z", -62_135_596_800_000],
  // Leap seconds, the examples of RFC 3339 §5.8: the same instant twice.
  ["1990-12-31T23:59:60Z", Date.UTC(1991, 0, 1)],
  ["1990-12-31T15:59:60-08:00", Date.UTC(1991, 0, 1)],
])("%s", (text, expectedMs) => expect(parseTimestamp(text)).toBe(expectedMs));

test.each([
  "",
  "2026-03-01",
  "2026-03-01 12:00:00Z",
  "2026-03-01T12:00:00",
  "2026-03-01T12:00Z",
  "2026-03-01T12:00:00.Z",
  "2026-03-01T12:00:00,5Z",
  "2026-13-01T12:00:00Z",
  "2026-00-01T12:00:00Z",
  "2026-02-29T12:00:00Z",
  "1900-02-29T12:00:00Z",
  "2026-04-31T12:00:00Z",
  "2026-03-00T12:00:00Z",
  "2026-03-01T24:00:00Z",
  "2026-03-01T12:60:00Z",
  "2026-03-01T12:00:61Z",
  "2026-03-01T12:00:60Z",
  "2026-03-30T23:59:60Z",
  "2026-03-31T23:59:60+01:00",
  "2026-03-01T12:00:00+24:00",
  "2026-03-01T12:00:00+01:60",
  "2026-03-01T12:00:00+0100",
  "+2026-03-01T12:00:00Z",
  "12026-03-01T12:00:00Z",
  "2026-03-01T12:00:00Z ",
  "2026-03-01T12:00:00Z\n",
  "٢٠٢٦-03-01T12:00:00Z",
])("%j is no timestamp", (text) => expect(parseTimestamp(text)).toBeUndefined());

test("output of Date is read back", () => {
  const date = fc.date({
    min: new Date("0000-01-01T00:00:00Z"),
    max: new Date("9999-12-31T23:59:59.999Z"),
    noInvalidDate: true,
  });
  fc.assert(
    fc.property(date, (value) => {
      expect(parseTimestamp(value.toISOString())).toBe(value.getTime());
    }),
  );
});

test("the zero time is one instant in any spelling", () => {
  for (const text of ["0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z", "0001-01-01T01:00:00+01:00"]) {
    expect(isZeroTime(parseTimestamp(text) ?? Number.NaN)).toBe(true);
  }
  expect(isZeroTime(parseTimestamp("0001-01-01T00:00:01Z") ?? Number.NaN)).toBe(false);
});
