/** Metrics of the policy: its loads, its alerts, and the candidate beside it. */
import { Counter, Gauge, type Registry } from "prom-client";
import type { Clock } from "../base/clock.ts";
import { boundedAlertLabels, boundedLabels, maxLabelledTenants } from "./bounded-labels.ts";

/** The set that decides, or the candidate beside it. */
export type PolicyRole = "active" | "shadow";

export interface PolicyMetrics {
  /** A decision with this alert of a policy was recorded. */
  policyAlerted(tenant: string, alert: string, allow: boolean): void;
  /** A policy set came into force, or became the candidate. */
  policyLoaded(role: PolicyRole, revision: string): void;
  /** The newest content of a policy directory was refused, or could not be taken now. */
  policyRefused(role: PolicyRole, result: "refused" | "failed"): void;
  /** How many sets Cedar alone evaluates, because their compiled policies differ from it. */
  policySetsDisagree(role: PolicyRole, sets: number): void;
  /** Cedar was asked again about a decision of compiled policies; or was to be asked. */
  refereed(result: "agrees" | "differs" | "dropped" | "failed"): void;
  /** A decision was compared with what the candidate says: with the tenant where they differ. */
  shadowCompared(difference: { readonly kind: string; readonly tenant: string } | undefined): void;
  /** A decision was not compared, for want of time. */
  shadowDropped(): void;
}

/** Makes them in the registries. */
export function policyMetrics(registers: Registry[], clock: Clock): PolicyMetrics {
  const reloads = new Counter({
    name: "svc_policy_loads_total",
    help: "Policy sets that came into force, were refused, or could not be taken at the time",
    labelNames: ["role", "result"],
    registers,
  });
  const stale = new Gauge({
    name: "svc_policy_stale",
    help: "1 where the newest content of the policy directory is not in force",
    labelNames: ["role"],
    registers,
  });
  const revisions = new Gauge({
    name: "svc_policy_revision_info",
    help: "1 for the revision in force",
    labelNames: ["role", "revision"],
    aggregator: "max",
    registers,
  });
  const loadedAt = new Gauge({
    name: "svc_policy_loaded_timestamp_seconds",
    help: "When the revision came into force, or became the candidate",
    labelNames: ["role"],
    aggregator: "max",
    registers,
  });
  const compared = new Counter({
    name: "svc_shadow_compared_total",
    help: "Decisions compared with the candidate policy set, by the kind of difference",
    labelNames: ["difference"],
    registers,
  });
  const differences = new Counter({
    name: "svc_shadow_differences_total",
    help: "Decisions that the candidate policy set would have made differently",
    labelNames: ["tenant", "difference"],
    registers,
  });
  const dropped = new Counter({
    name: "svc_shadow_dropped_total",
    help: "Decisions that were not compared, for want of time",
    registers,
  });
  const alerts = new Counter({
    name: "svc_policy_alerts_total",
    help: "Decisions made and recorded under a policy with this alert",
    labelNames: ["tenant", "alert", "allow"],
    registers,
  });
  const disagreeing = new Gauge({
    name: "svc_policy_sets_disagreeing",
    help: "Sets that Cedar alone evaluates, because their compiled policies differ from it",
    labelNames: ["role"],
    registers,
  });
  const refereed = new Counter({
    name: "svc_policy_refereed_total",
    help: "Decisions of compiled policies that Cedar was asked about again, by what came of it",
    labelNames: ["result"],
    registers,
  });
  // There before the first, so that an alert sees it rise.
  for (const result of ["agrees", "differs", "dropped", "failed"]) refereed.inc({ result }, 0);
  const labelOf = boundedLabels(maxLabelledTenants);
  const alertLabelsOf = boundedAlertLabels();
  const inForce = new Map<PolicyRole, string>();
  return {
    policyAlerted: (tenant, name, allow) => alerts.inc({ ...alertLabelsOf(tenant, name), allow: String(allow) }),
    policyLoaded(role, revision) {
      const before = inForce.get(role);
      if (before !== undefined) revisions.remove({ role, revision: before });
      inForce.set(role, revision);
      revisions.set({ role, revision }, 1);
      loadedAt.set({ role }, clock.now() / 1000);
      reloads.inc({ role, result: "loaded" });
      stale.set({ role }, 0);
    },
    policyRefused(role, result) {
      reloads.inc({ role, result });
      stale.set({ role }, 1);
    },
    policySetsDisagree: (role, sets) => disagreeing.set({ role }, sets),
    refereed: (result) => refereed.inc({ result }),
    shadowCompared(difference) {
      compared.inc({ difference: difference?.kind ?? "none" });
      if (difference !== undefined) {
        differences.inc({ tenant: labelOf(difference.tenant), difference: difference.kind });
      }
    },
    shadowDropped: () => dropped.inc(),
  };
}
