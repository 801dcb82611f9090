/** Metrics of calls: their results, their tenants, and refusals before a call began. */
import { Counter, Gauge, Histogram, type Registry } from "prom-client";

interface FinishedCall {
  /** `Service/Method`, from the descriptors; `none` if no method was found. Never text of the caller. */
  readonly rpc: string;
  readonly protocol: "rest" | "connect" | "grpc" | "grpc_web";
  /** Connect code in snake_case, or `ok`. */
  readonly code: string;
  /** Reason of the refusal, or `none`. */
  readonly reason: string;
  readonly durationMs: number;
  /** HTTP status of the code: below 500 for the caller's faults. */
  readonly httpStatus: number;
  /** Absent if the caller was not authenticated. */
  readonly tenant?: string | undefined;
}

export interface CallMetrics {
  callFinished(call: FinishedCall): void;
  /** A request body was refused because this share of the memory for bodies was used up. */
  bodyRefused(share: "all" | "tenant" | "anonymous"): void;
  /** Sets the source of the gauge of request body bytes. */
  watchBodies(inFlightBytes: () => number): void;
  credentialsRefused(reason: string): void;
  /** A forwarded certificate came from an untrusted address. */
  forwardedCertificateIgnored(): void;
  /** Identity headers came from an untrusted address. */
  identityHeadersIgnored(): void;
}

const callSeconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 30];

export function callMetrics(registers: Registry[]): CallMetrics {
  const calls = new Counter({
    name: "svc_calls_total",
    help: "Calls answered",
    labelNames: ["rpc", "protocol", "code", "reason"],
    registers,
  });
  const durations = new Histogram({
    name: "svc_call_duration_seconds",
    help: "Time from the headers of a call to its answer",
    labelNames: ["rpc", "protocol"],
    buckets: callSeconds,
    registers,
  });
  const ofTenant = tenantCounter({
    name: "svc_tenant_calls_total",
    help: "Calls of authenticated callers: ok, refused (the caller's fault), failed (the service's fault)",
    label: "result",
    registers,
  });
  const refusals = new Counter({
    name: "svc_credentials_refused_total",
    help: "Credentials refused",
    labelNames: ["reason"],
    registers,
  });
  const refusedBodies = new Counter({
    name: "svc_bodies_refused_total",
    help: "Request bodies refused because the memory for bodies was full, by the share that was used up",
    labelNames: ["share"],
    registers,
  });
  let inFlightBytes: (() => number) | undefined;
  new Gauge({
    name: "svc_body_bytes_in_flight",
    // The value is the same in every thread, or shared by them.
    help: "Bytes in use of the memory for request bodies",
    registers,
    collect() {
      if (inFlightBytes === undefined) this.remove();
      else this.set(inFlightBytes());
    },
  });
  const ignoredCertificates = new Counter({
    name: "svc_forwarded_certificates_ignored_total",
    help: "Forwarded client certificates from addresses that are not trusted proxies",
    registers,
  });
  const ignoredIdentities = new Counter({
    name: "svc_identity_headers_ignored_total",
    help: "Calls with identity headers that did not come from the trusted ingress",
    registers,
  });
  return {
    callFinished({ rpc, protocol, code, reason, durationMs, httpStatus, tenant }) {
      calls.inc({ rpc, protocol, code, reason });
      durations.observe({ rpc, protocol }, durationMs / 1000);
      if (tenant === undefined) return;
      const result = code === "ok" ? "ok" : httpStatus < 500 ? "refused" : "failed";
      ofTenant(tenant, result);
    },
    bodyRefused: (share) => refusedBodies.inc({ share }),
    watchBodies(source) {
      inFlightBytes = source;
    },
    credentialsRefused: (reason) => refusals.inc({ reason }),
    forwardedCertificateIgnored: () => ignoredCertificates.inc(),
    identityHeadersIgnored: () => ignoredIdentities.inc(),
  };
}

// A counter by tenant and one more label that is very cheap to increment: series are built when it is read.

interface TenantCounterOptions<Label extends string> {
  readonly name: string;
  readonly help: string;
  /** Name of the other label, which has few values. */
  readonly label: Label;
  readonly registers: Registry[];
}

/** Creates the counter; returns the function that increments it. */
export function tenantCounter<Label extends string>(
  options: TenantCounterOptions<Label>,
): (tenant: string, value: string) => void {
  const { label, name, help, registers } = options;
  const tenantOf = boundedLabels(maxLabelledTenants);
  const counts = new Map<string, Map<string, number>>();
  new Counter<string>({
    ...{ name, help, registers },
    labelNames: ["tenant", label],
    collect() {
      this.reset();
      for (const [tenant, byValue] of counts)
        for (const [value, count] of byValue) this.inc({ tenant, [label]: value }, count);
    },
  });
  return (tenant, value) => {
    const labelled = tenantOf(tenant);
    const byValue = counts.get(labelled) ?? new Map<string, number>();
    if (byValue.size === 0) counts.set(labelled, byValue);
    byValue.set(value, (byValue.get(value) ?? 0) + 1);
  };
}

/** Label of tenants and alerts beyond the bounds; no tenant's id begins with an underscore. */
const otherLabel = "_other";
/** Most tenants with separate labels in a metric. */
const maxLabelledTenants = 1_000;
/** Most alert names with separate labels; most series of one metric by tenant and alert. */
const maxLabelledAlerts = 100;
const maxLabelledPairs = 1_000;

/** Gives the first values separate labels; all others share one. */
function boundedLabels(maximum: number): (value: string) => string {
  const labelled = new Set<string>();
  return (value) => {
    if (value !== otherLabel && labelled.size < maximum) labelled.add(value);
    return labelled.has(value) ? value : otherLabel;
  };
}

/** Labels of tenants with alerts; the number of pairs is bounded too. */
export function boundedAlertLabels(): (tenant: string, name: string) => { tenant: string; alert: string } {
  const alertOf = boundedLabels(maxLabelledAlerts);
  const pairOf = boundedLabels(maxLabelledPairs);
  return (tenant, name) => {
    const alert = alertOf(name);
    return { tenant: pairOf(`${tenant} ${alert}`) === otherLabel ? otherLabel : tenant, alert };
  };
}
