/** A counter by tenant, and by one thing more, that costs next to nothing to count with: it is made up when it is read. */
import { Counter, type Registry } from "prom-client";
import { boundedLabels, maxLabelledTenants } from "./bounded-labels.ts";

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
