import { beforeEach, expect, test } from "vitest";
import { createMetrics, type Metrics } from "../../../src/telemetry/metrics.ts";

let metrics: Metrics;
beforeEach(() => {
  metrics = createMetrics({ process: false, clock: { now: () => 5_000 }, build: { version: "1.2.3", node: "26.1.0" } });
});

test("evidence counts as expected for allowed decisions that expect it, and as arrived for matching events", async () => {
  metrics.decided("t", "protect", true, true);
  metrics.decided("t", "protect", true, false);
  metrics.decided("t", "protect", false, true);
  metrics.evidenceArrived("t");
  metrics.evidenceArrived("t");
  const lines = (await metrics.expose()).body
    .split("\n")
    .filter((line) => line.startsWith("svc_tenant_evidence_total{"));
  expect(lines.toSorted()).toEqual([
    'svc_tenant_evidence_total{tenant="t",state="arrived"} 2',
    'svc_tenant_evidence_total{tenant="t",state="expected"} 1',
  ]);
});

test("alerts are counted by tenant and name, with a bound that a scraper can handle", async () => {
  metrics.policyAlerted("t", "break-glass", true);
  metrics.policyAlerted("t", "break-glass", true);
  for (let alert = 0; alert < 200; alert++) metrics.policyAlerted("t", `alert-${alert}`, false);
  for (let tenant = 0; tenant < 2_000; tenant++) metrics.policyAlerted(`t${tenant}`, "break-glass", true);
  const lines = (await metrics.expose()).body.split("\n").filter((line) => line.startsWith("svc_policy_alerts_total{"));
  expect(lines).toContain('svc_policy_alerts_total{tenant="t",alert="break-glass",allow="true"} 2');
  expect(lines).toContain('svc_policy_alerts_total{tenant="t",alert="alert-98",allow="false"} 1');
  expect(lines).toContain('svc_policy_alerts_total{tenant="t",alert="_other",allow="false"} 101');
  expect(lines).toContain('svc_policy_alerts_total{tenant="t0",alert="break-glass",allow="true"} 1');
  expect(lines).toContain('svc_policy_alerts_total{tenant="_other",alert="break-glass",allow="true"} 1101');
  expect(lines.length).toBeLessThan(1_200);
});
