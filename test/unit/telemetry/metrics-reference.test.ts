import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { withMetricsTables } from "../../../scripts/metrics-reference.ts";

test("the reference of metrics is what the service exposes", () => {
  const document = readFileSync(join(import.meta.dirname, "../../../docs/metrics.md"), "utf8");
  expect(document).toBe(withMetricsTables(document));
});
