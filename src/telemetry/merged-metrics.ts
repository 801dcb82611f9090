/** Metrics of several threads as those of one service: counters and histograms add up, a gauge as it says itself. */
import { AggregatorRegistry, type MetricObjectWithValues, type MetricValue, type Registry } from "prom-client";
import { boundedAlertLabels, boundedLabels, maxLabelledTenants } from "./bounded-labels.ts";

/** What one thread has measured, in a form that a message can carry. */
export type MetricsSnapshot = readonly MetricObjectWithValues<MetricValue<string>>[];

/** Text for a scraper, and its content type. */
export interface Exposition {
  readonly contentType: string;
  readonly body: string;
}

/**
 * Puts the metrics of threads together. Each thread gives so many tenants labels of their own; all together give no more,
 * the first that were seen, for as long as this is used.
 */
export class MetricsMerger {
  readonly #bounded = tenantBounds();

  async expose(snapshots: readonly MetricsSnapshot[]): Promise<Exposition> {
    const registry = this.#merge(snapshots);
    return { contentType: registry.contentType, body: await registry.metrics() };
  }

  /** What is still to be told of threads that are no more: what they counted. Their gauges went with them. */
  async countedBy(snapshots: readonly MetricsSnapshot[]): Promise<MetricsSnapshot> {
    return this.#merge(
      snapshots.map((snapshot) => snapshot.filter(({ type }) => isCount(String(type)))),
    ).getMetricsAsJSON();
  }

  #merge(snapshots: readonly MetricsSnapshot[]): Registry {
    return AggregatorRegistry.aggregate(
      snapshots.map((snapshot) => snapshot.map((metric) => this.#bounded(ofOneService(metric)))),
    );
  }
}

function isCount(type: string): boolean {
  return type === "counter" || type === "histogram";
}

function tenantBounds(): (metric: Metric) => Metric {
  const tenantsOf = new Map<string, ReturnType<typeof boundedLabels>>();
  const alertLabelsOf = boundedAlertLabels();
  const boundedOf = (name: string, { tenant, alert }: Labels) => {
    if (alert !== undefined) return alertLabelsOf(tenant, alert);
    const tenantOf = tenantsOf.get(name) ?? boundedLabels(maxLabelledTenants);
    tenantsOf.set(name, tenantOf);
    return { tenant: tenantOf(tenant) };
  };
  return (metric) => {
    if (!metric.values.some(({ labels }) => isOfTenant(labels))) return metric;
    const values = metric.values.map(({ labels, ...value }) =>
      isOfTenant(labels)
        ? { ...value, labels: { ...labels, ...boundedOf(metric.name, labels) } }
        : { ...value, labels },
    );
    return { ...metric, values };
  };
}

type Metric = MetricsSnapshot[number];
interface Labels {
  readonly tenant: string;
  readonly alert?: string;
}

function isOfTenant(labels: object): labels is Labels {
  return "tenant" in labels;
}

/** What the library would leave out, or average: of lags an average says little, one loop that stands still is looked for. */
function ofOneService(metric: Metric): Metric {
  if (metric.name === "process_start_time_seconds") return { ...metric, aggregator: "first" };
  const isLag = metric.name.startsWith("nodejs_eventloop_lag") && metric.aggregator === "average";
  return isLag ? { ...metric, aggregator: "max" } : metric;
}
