/** Metrics of what a running service takes up: files that settings name, and policy directories. */
import { Counter, Gauge, type Registry } from "prom-client";

/** What became of a change that a running service was to take up. */
export type ReloadOutcome = "taken" | "refused" | "failed";

export interface ReloadMetrics {
  /** Files of this kind, or a policy directory, are followed, and what they say is in force. */
  followed(what: string): void;
  /** A change of what is followed came into force; was refused; or could not be taken now, and is tried again. */
  reloaded(what: string, outcome: ReloadOutcome): void;
}

/** Makes them in the registries. */
export function reloadMetrics(registers: Registry[]): ReloadMetrics {
  const reloads = new Counter({
    name: "svc_reloads_total",
    help: "Changed files and policy directories that came into force, were refused, or could not be taken at the time",
    labelNames: ["what", "outcome"],
    registers,
  });
  const stale = new Gauge({
    name: "svc_reload_stale",
    help: "1 where the newest content of what is followed is not in force",
    labelNames: ["what"],
    registers,
  });
  return {
    followed(what) {
      for (const outcome of ["taken", "refused"]) reloads.inc({ what, outcome }, 0);
      stale.set({ what }, 0);
    },
    reloaded(what, outcome) {
      reloads.inc({ what, outcome });
      stale.set({ what }, outcome === "taken" ? 0 : 1);
    },
  };
}
