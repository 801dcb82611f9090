/** A counter by tenant and one more label that is very cheap to increment: series are built when it is read. */
import { Counter, type Registry } from "prom-client";

export interface TenantCounterOptions<Label extends string> {
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
