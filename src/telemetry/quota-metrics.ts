/** Metrics of quotas: the same whoever the tenant is. */
import { Counter, type Registry } from "prom-client";

export interface QuotaMetrics {
  /** What came of a call, or of asking the store for a portion. */
  quotaEvent(quota: string, event: "refused" | "uncounted" | "leased" | "lease_failed"): void;
}

/** Makes them in the registries. */
export function quotaMetrics(registers: Registry[]): QuotaMetrics {
  const calls = new Counter({
    name: "svc_quota_calls_total",
    help: "Calls that were refused for a tenant's quota, or let through uncounted while the store was down",
    labelNames: ["quota", "result"],
    registers,
  });
  const portions = new Counter({
    name: "svc_quota_portions_total",
    help: "Portions of tenants' quotas that were asked of the store",
    labelNames: ["quota", "result"],
    registers,
  });
  return {
    quotaEvent(quota, event) {
      if (event === "refused" || event === "uncounted") calls.inc({ quota, result: event });
      else portions.inc({ quota, result: event === "leased" ? "ok" : "failed" });
    },
  };
}
