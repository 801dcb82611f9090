/**
 * The Grafana dashboards in `deploy/monitoring/dashboards`, made from the tables below by `npm run docs:dashboards`. A
 * test compares them, and the system lane runs every query on a Prometheus.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

type Unit = "short" | "reqps" | "s" | "bytes" | "percentunit" | "dateTimeFromNow";

interface Panel {
  readonly title: string;
  readonly unit: Unit;
  /** PromQL and the legend of its line. */
  readonly queries: readonly (readonly [expr: string, legend: string])[];
  /** Default: a graph. */
  readonly type?: "stat" | "table";
}

interface Dashboard {
  readonly uid: string;
  readonly title: string;
  readonly panels: readonly Panel[];
  /** Variables of the queries besides the job, each with a metric that has the label of that name. */
  readonly variables?: Readonly<Record<string, string>>;
}

const job = 'job=~"$job"';
const rate = (series: string) => `rate(${series}[$__rate_interval])`;
const per = (label: string, metric: string, more = "") => `sum by (${label}) (${rate(`${metric}{${job}${more}}`)})`;
const quantile = (q: number, metric: string, label: string, more = "") =>
  `histogram_quantile(${q}, ${per(label === "" ? "le" : `le, ${label}`, `${metric}_bucket`, more)})`;
/** How often in the interval; the first time that a series shows counts too, which `increase` leaves out. */
const times = (label: string, metric: string, more = "") =>
  `(sum by (${label}) (increase(${metric}{${job}${more}}[$__rate_interval])) > 0)` +
  ` or sum by (${label}) (${metric}{${job}${more}} unless ${metric}{${job}${more}} offset $__rate_interval)`;
const ofTenant = ', tenant=~"$tenant"';

export const dashboards: readonly Dashboard[] = [
  {
    uid: "svc-overview",
    title: "Platform API: overview",
    panels: [
      { title: "Replicas that are up", unit: "short", type: "stat", queries: [[`sum(up{${job}})`, "up"]] },
      {
        title: "Versions",
        unit: "short",
        type: "stat",
        queries: [[`count by (version) (svc_build_info{${job}})`, "{{version}}"]],
      },
      {
        title: "Share of calls that fail",
        unit: "percentunit",
        type: "stat",
        queries: [
          [
            `(sum(${rate(`svc_calls_total{${job}, code=~"unavailable|internal|deadline_exceeded", reason!="request_timeout"}`)}) or vector(0)) / sum(${rate(`svc_calls_total{${job}}`)})`,
            "failing",
          ],
        ],
      },
      { title: "Calls by method", unit: "reqps", queries: [[per("rpc", "svc_calls_total"), "{{rpc}}"]] },
      { title: "Calls by code", unit: "reqps", queries: [[per("code", "svc_calls_total"), "{{code}}"]] },
      { title: "Calls by protocol", unit: "reqps", queries: [[per("protocol", "svc_calls_total"), "{{protocol}}"]] },
      {
        title: "Time of a call",
        unit: "s",
        queries: [
          [quantile(0.5, "svc_call_duration_seconds", "", ', rpc!~"Health/.*"'), "half"],
          [quantile(0.99, "svc_call_duration_seconds", "", ', rpc!~"Health/.*"'), "99 %"],
        ],
      },
      {
        title: "Time of a call by method (99 %)",
        unit: "s",
        queries: [[quantile(0.99, "svc_call_duration_seconds", "rpc"), "{{rpc}}"]],
      },
      {
        title: "Waiting by stage",
        unit: "short",
        queries: [[`sum by (stage) (svc_queue_depth{${job}})`, "{{stage}}"]],
      },
      {
        title: "Wait by stage (99 %)",
        unit: "s",
        queries: [[quantile(0.99, "svc_queue_wait_seconds", "stage"), "{{stage}}"]],
      },
      {
        title: "Delay of the event loop (99 %)",
        unit: "s",
        queries: [[`nodejs_eventloop_lag_p99_seconds{${job}}`, "{{instance}}"]],
      },
      { title: "Processors", unit: "short", queries: [[rate(`process_cpu_seconds_total{${job}}`), "{{instance}}"]] },
      {
        title: "Memory",
        unit: "bytes",
        queries: [
          [`process_resident_memory_bytes{${job}}`, "{{instance}}"],
          [`svc_body_bytes_in_flight{${job}}`, "{{instance}} request bodies"],
        ],
      },
      {
        title: "Credentials refused",
        unit: "reqps",
        queries: [
          [per("reason", "svc_credentials_refused_total"), "{{reason}}"],
          [`sum(${rate(`svc_identity_headers_ignored_total{${job}}`)})`, "identity headers ignored"],
          [`sum(${rate(`svc_forwarded_certificates_ignored_total{${job}}`)})`, "forwarded certificates ignored"],
        ],
      },
      {
        title: "Certificates expire",
        unit: "s",
        type: "table",
        queries: [[`min by (setting) (svc_certificate_expiry_timestamp_seconds{${job}}) - time()`, "{{setting}}"]],
      },
      {
        title: "Age of keys",
        unit: "s",
        type: "table",
        queries: [[`time() - min by (setting) (svc_key_file_timestamp_seconds{${job}})`, "{{setting}}"]],
      },
      {
        title: "Age of the issuers' keys",
        unit: "s",
        queries: [[`time() - svc_issuer_keys_fetched_timestamp_seconds{${job}}`, "{{instance}} {{issuer}}"]],
      },
    ],
  },
  {
    uid: "svc-tenant",
    title: "Platform API: tenant",
    variables: { tenant: "svc_tenant_calls_total" },
    panels: [
      {
        title: "Calls by result",
        unit: "reqps",
        queries: [[per("result", "svc_tenant_calls_total", ofTenant), "{{result}}"]],
      },
      {
        title: "Share of all calls",
        unit: "percentunit",
        queries: [
          [
            `${per("tenant", "svc_tenant_calls_total", ofTenant)} / scalar(sum(${rate(`svc_tenant_calls_total{${job}}`)}))`,
            "{{tenant}}",
          ],
        ],
      },
      {
        title: "Ten largest tenants",
        unit: "reqps",
        queries: [[`topk(10, ${per("tenant", "svc_tenant_calls_total")})`, "{{tenant}}"]],
      },
      {
        title: "Decisions",
        unit: "reqps",
        queries: [[per("allow", "svc_tenant_decisions_total", ofTenant), "allow {{allow}}"]],
      },
      {
        title: "Share of denials",
        unit: "percentunit",
        queries: [
          [
            `(sum by (tenant) (${rate(`svc_tenant_decisions_total{${job}, allow="false"${ofTenant}}`)})) / sum by (tenant) (${rate(`svc_tenant_decisions_total{${job}${ofTenant}}`)})`,
            "{{tenant}}",
          ],
        ],
      },
      {
        title: "Alerts of policies",
        unit: "short",
        queries: [[times("alert, allow", "svc_policy_alerts_total", ofTenant), "{{alert}} allow {{allow}}"]],
      },
      {
        title: "Minutes in which a principal was denied many decisions",
        unit: "short",
        queries: [[times("tenant", "svc_tenant_denial_spikes_total", ofTenant), "{{tenant}}"]],
      },
      {
        title: "Evidence",
        unit: "reqps",
        queries: [[per("state", "svc_tenant_evidence_total", ofTenant), "{{state}}"]],
      },
    ],
  },
  {
    uid: "svc-ledger",
    title: "Platform API: ledger",
    panels: [
      {
        title: "Records",
        unit: "reqps",
        queries: [[`sum(${rate(`svc_append_batch_records_sum{${job}}`)})`, "records"]],
      },
      {
        title: "Writes",
        unit: "reqps",
        queries: [[`sum(${rate(`svc_append_batch_records_count{${job}}`)})`, "writes"]],
      },
      {
        title: "Records in one write",
        unit: "short",
        queries: [
          [
            `sum(${rate(`svc_append_batch_records_sum{${job}}`)}) / sum(${rate(`svc_append_batch_records_count{${job}}`)})`,
            "mean",
          ],
          [quantile(0.99, "svc_append_batch_records", ""), "99 %"],
        ],
      },
      {
        title: "Time of a write",
        unit: "s",
        queries: [
          [quantile(0.5, "svc_append_duration_seconds", ""), "half"],
          [quantile(0.99, "svc_append_duration_seconds", ""), "99 %"],
        ],
      },
      {
        title: "Failed writes",
        unit: "reqps",
        queries: [[`sum(${rate(`svc_append_failures_total{${job}}`)})`, "failed"]],
      },
      {
        title: "Records that wait",
        unit: "short",
        queries: [[`sum(svc_queue_depth{${job}, stage="append"})`, "waiting"]],
      },
      {
        title: "Wait of a record (99 %)",
        unit: "s",
        queries: [[quantile(0.99, "svc_queue_wait_seconds", "", ', stage="append"'), "99 %"]],
      },
      {
        title: "Tenants with failing store operations",
        unit: "short",
        queries: [[`max(svc_store_stuck_tenants{${job}})`, "stuck"]],
      },
      {
        title: "Witnesses",
        unit: "reqps",
        queries: [[per("witness, result", "svc_witness_changes_total"), "{{witness}} {{result}}"]],
      },
      {
        title: "Age of the ledger key",
        unit: "s",
        type: "stat",
        queries: [[`time() - min(svc_key_file_timestamp_seconds{${job}, setting="SVC_LEDGER_KEY"})`, "ledger key"]],
      },
    ],
  },
  {
    uid: "svc-policy",
    title: "Platform API: policy",
    panels: [
      {
        title: "Revisions, and on how many replicas",
        unit: "short",
        type: "table",
        queries: [[`count by (revision) (svc_policy_revision_info{${job}})`, "{{revision}}"]],
      },
      {
        title: "In force since",
        unit: "s",
        type: "stat",
        queries: [[`time() - max(svc_policy_loaded_timestamp_seconds{${job}})`, "age"]],
      },
      {
        title: "Newest content is not in force",
        unit: "short",
        type: "stat",
        queries: [[`max(svc_policy_stale{${job}})`, "stale"]],
      },
      {
        title: "Loads",
        unit: "short",
        queries: [[`sum by (result) (svc_policy_loads_total{${job}})`, "{{result}}"]],
      },
      {
        title: "Decisions",
        unit: "reqps",
        queries: [[per("action, allow", "svc_decisions_total"), "{{action}} allow {{allow}}"]],
      },
      {
        title: "Share of denials",
        unit: "percentunit",
        queries: [
          [
            `sum by (action) (${rate(`svc_decisions_total{${job}, allow="false"}`)}) / sum by (action) (${rate(`svc_decisions_total{${job}}`)})`,
            "{{action}}",
          ],
        ],
      },
      {
        title: "Alerts",
        unit: "short",
        queries: [[times("alert, allow", "svc_policy_alerts_total"), "{{alert}} allow {{allow}}"]],
      },
      {
        title: "Sets that Cedar alone evaluates",
        unit: "short",
        queries: [[`max(svc_policy_sets_disagreeing{${job}})`, "sets"]],
      },
    ],
  },
];

const datasource = { type: "prometheus", uid: `\${datasource}` };
const columns = 3;
const width = 24 / columns;
const height = 8;

/** The dashboard as Grafana imports it. */
export function dashboardJson({ uid, title, panels, variables = {} }: Dashboard): string {
  const labels = Object.entries({ job: "svc_build_info", ...variables });
  const json = {
    ...{ uid, title, tags: ["svc-platform-api"], schemaVersion: 39, editable: true, refresh: "30s" },
    time: { from: "now-1h", to: "now" },
    templating: {
      list: [
        { name: "datasource", label: "Data source", type: "datasource", query: "prometheus" },
        ...labels.map(([label, metric]) => ({
          ...{ name: label, type: "query", datasource, query: `label_values(${metric}, ${label})` },
          ...{ refresh: 2, includeAll: true, allValue: ".+", multi: true, current: { text: "All", value: "$__all" } },
        })),
      ],
    },
    panels: panels.map((panel, index) => panelJson(panel, index)),
  };
  return `${JSON.stringify(json, undefined, 2)}\n`;
}

function panelJson({ title, unit, queries, type: shown }: Panel, index: number) {
  const type = shown ?? "timeseries";
  return {
    ...{ id: index + 1, title, type, datasource },
    gridPos: { x: (index % columns) * width, y: Math.floor(index / columns) * height, w: width, h: height },
    fieldConfig: { defaults: { unit, min: 0 }, overrides: [] },
    targets: queries.map(([expr, legendFormat], position) => ({
      ...{ refId: String.fromCharCode(65 + position), datasource, expr, legendFormat },
      ...(type === "timeseries" ? {} : { instant: true, ...(type === "table" && { format: "table" }) }),
    })),
  };
}

if (import.meta.main) {
  const folder = join(import.meta.dirname, "../deploy/monitoring/dashboards");
  mkdirSync(folder, { recursive: true });
  for (const dashboard of dashboards) writeFileSync(join(folder, `${dashboard.uid}.json`), dashboardJson(dashboard));
}
