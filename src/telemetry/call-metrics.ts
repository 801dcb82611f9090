/** Metrics of calls: what came of them, for whom, and what was refused before they were calls. */
import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import { tenantCounter } from "./tenant-counter.ts";

/** A call that was answered. */
export interface FinishedCall {
  /** `Service/Method`, from the descriptors; `none` where no method was found. Never text of a caller's. */
  readonly rpc: string;
  readonly protocol: "rest" | "connect" | "grpc" | "grpc_web";
  /** Connect code in snake_case, or `ok`. */
  readonly code: string;
  /** Reason of the refusal, or `none`. */
  readonly reason: string;
  readonly durationMs: number;
  /** HTTP status that the code stands for: what is the caller's to mend is below 500. */
  readonly httpStatus: number;
  /** Whose call it was; absent where nobody proved who they are. */
  readonly tenant?: string | undefined;
}

export interface CallMetrics {
  callFinished(call: FinishedCall): void;
  /** A request body had no room in this share of the memory for bodies. */
  bodyRefused(share: "all" | "tenant" | "anonymous"): void;
  /** From now on what this returns is shown as the bytes of request bodies in memory. */
  watchBodies(inFlightBytes: () => number): void;
  /** Credentials were refused for this reason. */
  credentialsRefused(reason: string): void;
  /** A forwarded certificate came from somebody who is no trusted proxy. */
  forwardedCertificateIgnored(): void;
  /** Identity headers came from somebody who is no trusted ingress. */
  identityHeadersIgnored(): void;
}

const callSeconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 30];

/** Makes them in the registries. */
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
    help: "Calls of callers who proved who they are: ok, refused (the caller's to mend), failed (the service's)",
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
    help: "Request bodies refused for want of room in the memory for bodies, by whose share was used up",
    labelNames: ["share"],
    registers,
  });
  let inFlightBytes: (() => number) | undefined;
  new Gauge({
    name: "svc_body_bytes_in_flight",
    // Every thread says the same, or has it in common with others.
    help: "Bytes of the memory for request bodies that are taken",
    registers,
    collect() {
      if (inFlightBytes === undefined) this.remove();
      else this.set(inFlightBytes());
    },
  });
  const ignoredCertificates = new Counter({
    name: "svc_forwarded_certificates_ignored_total",
    help: "Forwarded client certificates from addresses that are no trusted proxies",
    registers,
  });
  const ignoredIdentities = new Counter({
    name: "svc_identity_headers_ignored_total",
    help: "Calls with identity headers from somebody who is no trusted ingress",
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
