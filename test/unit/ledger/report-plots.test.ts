import { expect, test } from "vitest";
import { barsPlot, columnsPlot } from "../../../src/ledger/report/plots.ts";

test("plots write numbers with a comma at each thousand", () => {
  expect(columnsPlot("by day", [{ value: "2026-01-30", records: 12_345 }], new Set()).text).toContain(
    ">2026-01-30: 12,345<",
  );
  expect(barsPlot("by principal", [{ value: "alice", records: 1_234_567 }]).text).toContain(">1,234,567<");
});
