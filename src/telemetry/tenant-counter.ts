/** A counter by tenant, and by one thing more, that costs next to nothing to count with: it is made up when it is read. */
import { Counter, type Registry } from "prom-client";

export interface TenantCounterOptions<Label extends string> {
  readonly name: string;
  readonly help: string;
  /** Name of the other label, whose values are few. */
  readonly label: Label;
  readonly registers: Registry[];
}

/** Makes it. Returns what counts one more. */
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

/** Stands for the tenants and alerts that have no label of their own; no tenant's id begins with an underscore. */
const otherLabel = "_other";
/** Tenants that have labels of their own in a metric. */
const maxLabelledTenants = 1_000;
/** Names of alerts that have labels of their own; and series of one metric by tenant and alert. */
const maxLabelledAlerts = 100;
const maxLabelledPairs = 1_000;

/** Gives the first so many values labels of their own; the others share one. */
function boundedLabels(maximum: number): (value: string) => string {
  const labelled = new Set<string>();
  return (value) => {
    if (value !== otherLabel && labelled.size < maximum) labelled.add(value);
    return labelled.has(value) ? value : otherLabel;
  };
}

/** The same for tenants, of whom each may have as many alerts as there are, and all together a number of pairs. */
export function boundedAlertLabels(): (tenant: string, name: string) => { tenant: string; alert: string } {
  const alertOf = boundedLabels(maxLabelledAlerts);
  const pairOf = boundedLabels(maxLabelledPairs);
  return (tenant, name) => {
    const alert = alertOf(name);
    return { tenant: pairOf(`${tenant} ${alert}`) === otherLabel ? otherLabel : tenant, alert };
  };
}
