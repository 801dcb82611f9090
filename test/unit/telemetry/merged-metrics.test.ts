import { afterEach, expect, test } from "vitest";
import { countedBy, exposeTogether } from "../../../src/telemetry/merged-metrics.ts";
import { createMetrics, type Metrics } from "../../../src/telemetry/metrics.ts";

const made: Metrics[] = [];
afterEach(() => {
  for (const metrics of made.splice(0)) metrics.close();
});

/** Metrics of a thread that has answered so many calls. */
function threadWith(calls: number, bodyBytes: number): Metrics {
  const metrics = createMetrics({ process: "thread" });
  made.push(metrics);
  for (let i = 0; i < calls; i++) {
    metrics.callFinished({ rpc: "S/M", protocol: "rest", code: "ok", reason: "none", durationMs: 20 });
    metrics.batchAppended(3, 4);
  }
  metrics.watchBodies(() => bodyBytes);
  metrics.watchWaiting(() => calls);
  return metrics;
}

async function linesOf(snapshots: Parameters<typeof exposeTogether>[0]): Promise<readonly string[]> {
  return (await exposeTogether(snapshots)).body.split("\n");
}

test("counters, histograms and what waits add up; what threads have in common is said once", async () => {
  const main = createMetrics({ process: true });
  made.push(main);
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
      "svc_calls_waiting 7",
      "svc_body_bytes_in_flight 700",
    ]),
  );
  // Of the process there is one.
  for (const name of ["process_resident_memory_bytes", "process_start_time_seconds", "nodejs_version_info"])
    expect(lines.filter((line) => line.startsWith(name)).length, name).toBe(1);
  const [start] = lines.filter((line) => line.startsWith("process_start_time_seconds "));
  expect(Number(start?.split(" ")[1])).toBeLessThan(Date.now() / 1000);
  expect(lines.some((line) => line.startsWith('svc_event_loop_delay_seconds{quantile="0.99"}'))).toBe(true);
});

test("a thread that is no more is still counted, and its gauges are not", async () => {
  const gone = await countedBy([await threadWith(4, 10).snapshot(), await threadWith(1, 20).snapshot()]);
  const lines = await linesOf([gone, await threadWith(2, 30).snapshot()]);
  expect(lines).toContain('svc_calls_total{rpc="S/M",protocol="rest",code="ok",reason="none"} 7');
  expect(lines).toContain("svc_append_batch_records_count 7");
  expect(lines).toContain("svc_calls_waiting 2");
  expect(lines).toContain("svc_body_bytes_in_flight 30");
});
