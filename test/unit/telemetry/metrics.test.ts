import { beforeEach, expect, test } from "vitest";
import { createMetrics, type Metrics } from "../../../src/telemetry/metrics.ts";

let metrics: Metrics;
beforeEach(() => {
  metrics = createMetrics({ process: false, clock: { now: () => 5_000 }, build: { version: "1.2.3", node: "26.1.0" } });
});

test("what is reported is exposed, with its labels", async () => {
  const call = {
    rpc: "DiscoveryService/WhoAmI",
    protocol: "rest",
    code: "ok",
    reason: "none",
    durationMs: 2,
    httpStatus: 200,
    tenant: "t",
  } as const;
  metrics.callFinished(call);
  metrics.callFinished(call);
  metrics.callFinished({
    ...call,
    protocol: "grpc",
    code: "unauthenticated",
    reason: "expired_token",
    httpStatus: 401,
  });
  metrics.callFinished({
    ...call,
    protocol: "connect",
    code: "unavailable",
    reason: "store_unavailable",
    httpStatus: 503,
    tenant: undefined,
  });
  metrics.queueWaited("admission", 3);
  metrics.watchQueue("append", () => 7);
  metrics.certificatesInForce("SVC_TLS_CERT", { notBeforeMs: 1_000, notAfterMs: 2_000 });
  metrics.watchKeyFiles(async () => new Map([["SVC_LEDGER_KEY", 3_000]]));
  metrics.decided("t", "protect", false);
  metrics.batchAppended(3, 4);
  metrics.appendFailed();
  metrics.credentialsRefused("expired_token");
  metrics.forwardedCertificateIgnored();
  metrics.issuersInForce(["https://id.example", "https://gone.example"]);
  for (const issuer of ["https://id.example", "https://gone.example"]) metrics.issuerKeysFetched(issuer, false);
  metrics.issuerOverreached("https://id.example");
  metrics.issuersInForce(["https://id.example"]);
  metrics.issuerKeysFetched("https://gone.example", true);

  const { body, contentType } = await metrics.expose();
  expect(contentType).toMatch(/^text\/plain/);
  const lines = body.split("\n");
  for (const line of [
    'svc_calls_total{rpc="DiscoveryService/WhoAmI",protocol="rest",code="ok",reason="none"} 2',
    'svc_calls_total{rpc="DiscoveryService/WhoAmI",protocol="grpc",code="unauthenticated",reason="expired_token"} 1',
    'svc_call_duration_seconds_bucket{le="0.0025",rpc="DiscoveryService/WhoAmI",protocol="rest"} 2',
    'svc_call_duration_seconds_bucket{le="0.001",rpc="DiscoveryService/WhoAmI",protocol="rest"} 0',
    'svc_decisions_total{action="protect",allow="false"} 1',
    'svc_append_batch_records_bucket{le="2"} 0',
    'svc_append_batch_records_bucket{le="4"} 1',
    "svc_append_duration_seconds_count 1",
    "svc_append_failures_total 1",
    'svc_credentials_refused_total{reason="expired_token"} 1',
    "svc_forwarded_certificates_ignored_total 1",
    'svc_issuer_key_fetches_total{issuer="https://id.example",result="failed"} 1',
    'svc_issuer_keys_fetched_timestamp_seconds{issuer="https://id.example"} 0',
    'svc_issuer_overreaches_total{issuer="https://id.example"} 1',
    'svc_tenant_calls_total{tenant="t",result="ok"} 2',
    'svc_tenant_calls_total{tenant="t",result="refused"} 1',
    'svc_tenant_decisions_total{tenant="t",allow="false"} 1',
    'svc_queue_wait_seconds_bucket{le="0.0025",stage="admission"} 0',
    'svc_queue_wait_seconds_bucket{le="0.005",stage="admission"} 1',
    'svc_queue_depth{stage="append"} 7',
    'svc_certificate_not_before_timestamp_seconds{setting="SVC_TLS_CERT"} 1',
    'svc_certificate_expiry_timestamp_seconds{setting="SVC_TLS_CERT"} 2',
    'svc_key_file_timestamp_seconds{setting="SVC_LEDGER_KEY"} 3',
  ]) {
    expect(lines).toContain(line);
  }
});

test("two services share nothing", async () => {
  const other = createMetrics({ process: false });
  metrics.appendFailed();
  expect((await other.expose()).body).toContain("svc_append_failures_total 0");
});

test("the process's own are there where they are asked for", async () => {
  const own = createMetrics({ process: true });
  expect((await own.expose()).body).toContain("process_resident_memory_bytes");
  expect((await metrics.expose()).body).not.toContain("process_resident_memory_bytes");
});

test("metrics name one policy revision in force, and whether it is the newest", async () => {
  metrics.policyLoaded("sha256:a");
  metrics.policyLoaded("sha256:b");
  metrics.policyRefused("refused");
  const lines = (await metrics.expose()).body.split("\n");
  expect(lines.filter((line) => line.startsWith("svc_policy_"))).toEqual([
    'svc_policy_loads_total{result="loaded"} 2',
    'svc_policy_loads_total{result="refused"} 1',
    "svc_policy_stale 1",
    'svc_policy_revision_info{revision="sha256:b"} 1',
    "svc_policy_loaded_timestamp_seconds 5",
    "svc_policy_sets_disagreeing 0",
  ]);
});

test("alerts are counted by tenant and name, of both so many that a scraper can take them", async () => {
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
