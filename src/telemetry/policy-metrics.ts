import { Counter, Gauge, type Registry } from "prom-client";
import type { Clock } from "../base/clock.ts";
import { boundedAlertLabels } from "./tenant-counter.ts";

export interface PolicyMetrics {
  /** A decision with this alert of a policy was recorded. */
  policyAlerted(tenant: string, alert: string, allow: boolean): void;
  policyLoaded(revision: string): void;
  /** The newest policy directory content was refused, or could not be loaded. */
  policyRefused(result: "refused" | "failed"): void;
  /** Number of sets that Cedar alone evaluates, because their compiled policies differ from it. */
  policySetsDisagree(sets: number): void;
}

export function policyMetrics(registers: Registry[], clock: Clock): PolicyMetrics {
  const reloads = new Counter({
    name: "svc_policy_loads_total",
    help: "Loads of policy sets: in force, refused as invalid, or failed to load",
    labelNames: ["result"],
    registers,
  });
  const stale = new Gauge({
    name: "svc_policy_stale",
    help: "1 if the newest content of the policy directory is not in force",
    registers,
  });
  const revisions = new Gauge({
    name: "svc_policy_revision_info",
    help: "1 for the revision in force",
    labelNames: ["revision"],
    registers,
  });
  const loadedAt = new Gauge({
    name: "svc_policy_loaded_timestamp_seconds",
    help: "When the revision came into force",
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
    registers,
  });
  const alertLabelsOf = boundedAlertLabels();
  let inForce: string | undefined;
  return {
    policyAlerted: (tenant, name, allow) => alerts.inc({ ...alertLabelsOf(tenant, name), allow: String(allow) }),
    policyLoaded(revision) {
      if (inForce !== undefined) revisions.remove({ revision: inForce });
      inForce = revision;
      revisions.set({ revision }, 1);
      loadedAt.set(clock.now() / 1000);
      reloads.inc({ result: "loaded" });
      stale.set(0);
    },
    policyRefused(result) {
      reloads.inc({ result });
      stale.set(1);
    },
    policySetsDisagree: (sets) => disagreeing.set(sets),
  };
}
