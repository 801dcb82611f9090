import { expect, test } from "vitest";
import { MetricsMerger, type MetricsSnapshot } from "../../../src/telemetry/merged-metrics.ts";
import { createMetrics, type Metrics } from "../../../src/telemetry/metrics.ts";

/** Metrics of a thread that has answered so many calls. */
function threadWith(calls: number, bodyBytes: number): Metrics {
  const metrics = createMetrics({ process: "thread" });
  for (let i = 0; i < calls; i++) {
    metrics.callFinished({
      ...{ rpc: "S/M", protocol: "rest", code: "ok", reason: "none" },
      durationMs: 20,
      httpStatus: 200,
    });
    metrics.batchAppended(3, 4);
  }
  metrics.watchBodies(() => bodyBytes);
  metrics.watchQueue("admission", () => calls);
  return metrics;
}

async function linesOf(snapshots: readonly MetricsSnapshot[]): Promise<readonly string[]> {
  return (await new MetricsMerger().expose(snapshots)).body.split("\n");
}

test("counters, histograms and what waits add up; what threads have in common is said once", async () => {
  const main = createMetrics({ process: true });
  const snapshots = await Promise.all([main, threadWith(2, 700), threadWith(5, 700)].map((each) => each.snapshot()));
  const lines = await linesOf(snapshots);
  expect(lines).toEqual(
    expect.arrayContaining([
      'svc_calls_total{rpc="S/M",protocol="rest",code="ok",reason="none"} 7',
      'svc_call_duration_seconds_bucket{le="0.01",rpc="S/M",protocol="rest"} 0',
      'svc_call_duration_seconds_bucket{le="0.025",rpc="S/M",protocol="rest"} 7',
      'svc_call_duration_seconds_count{rpc="S/M",protocol="rest"} 7',
      "svc_append_batch_records_sum 21",
      "svc_append_batch_records_count 7",
      'svc_queue_depth{stage="admission"} 7',
      "svc_body_bytes_in_flight 700",
    ]),
  );
  // Of the process there is one.
  for (const name of ["process_resident_memory_bytes", "process_start_time_seconds", "nodejs_version_info"])
    expect(lines.filter((line) => line.startsWith(name)).length, name).toBe(1);
  const [start] = lines.filter((line) => line.startsWith("process_start_time_seconds "));
  expect(Number(start?.split(" ")[1])).toBeLessThan(Date.now() / 1000);
  expect(lines.some((line) => line.startsWith("nodejs_eventloop_lag_p99_seconds "))).toBe(true);
});

test("a thread that is no more is still counted, and its gauges are not", async () => {
  const gone = await new MetricsMerger().countedBy([
    await threadWith(4, 10).snapshot(),
    await threadWith(1, 20).snapshot(),
  ]);
  const lines = await linesOf([gone, await threadWith(2, 30).snapshot()]);
  expect(lines).toContain('svc_calls_total{rpc="S/M",protocol="rest",code="ok",reason="none"} 7');
  expect(lines).toContain("svc_append_batch_records_count 7");
  expect(lines).toContain('svc_queue_depth{stage="admission"} 2');
  expect(lines).toContain("svc_body_bytes_in_flight 30");
});

test("threads give many tenants labels, and together no more than one would; what is labelled stays so", async () => {
  const [one, two] = [createMetrics({ process: "thread" }), createMetrics({ process: "thread" })];
  const merger = new MetricsMerger();
  const expose = async () => (await merger.expose([await one.snapshot(), await two.snapshot()])).body.split("\n");
  for (let tenant = 0; tenant < 900; tenant++) {
    one.decided(`one-${tenant}`, "protect", true);
    two.decided(`two-${tenant}`, "protect", true);
    one.policyAlerted(`one-${tenant}`, "told", true);
    two.policyAlerted(`two-${tenant}`, "told", true);
  }
  for (let alert = 0; alert < 90; alert++) {
    one.policyAlerted("t", `one-${alert}`, true);
    two.policyAlerted("t", `two-${alert}`, true);
  }
  const before = await expose();
  const ofTenants = before.filter((line) => line.startsWith("svc_tenant_decisions_total{"));
  expect(ofTenants.length).toBe(1_001);
  expect(ofTenants).toContain('svc_tenant_decisions_total{tenant="two-99",allow="true"} 1');
  expect(ofTenants).toContain('svc_tenant_decisions_total{tenant="_other",allow="true"} 800');
  const alerts = before.filter((line) => line.startsWith("svc_policy_alerts_total{"));
  expect(alerts.length).toBeLessThanOrEqual(1_101);
  two.decided("two-99", "protect", true);
  expect(await expose()).toContain('svc_tenant_decisions_total{tenant="two-99",allow="true"} 2');
});
