/** Bounds of labels whose values come from outside, so that a scraper can take what any number of tenants brings about. */

/** Stands for the tenants and alerts that have no label of their own; no tenant's id begins with an underscore. */
export const otherLabel = "_other";
/** Tenants that have labels of their own in a metric. */
export const maxLabelledTenants = 1_000;
/** Names of alerts that have labels of their own; and series of one metric by tenant and alert. */
export const maxLabelledAlerts = 100;
export const maxLabelledPairs = 1_000;

/** Gives the first so many values labels of their own; the others share one. */
export function boundedLabels(maximum: number): (value: string) => string {
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
