/** Metrics of several threads as those of one service: counters and histograms add up, a gauge as it says itself. */
import { AggregatorRegistry, type MetricObjectWithValues, type MetricValue, type Registry } from "prom-client";

/** What one thread has measured, in a form that a message can carry. */
export type MetricsSnapshot = readonly MetricObjectWithValues<MetricValue<string>>[];

/** Text for a scraper, and its content type. */
export interface Exposition {
  readonly contentType: string;
  readonly body: string;
}

export async function exposeTogether(snapshots: readonly MetricsSnapshot[]): Promise<Exposition> {
  const registry = merged(snapshots);
  return { contentType: registry.contentType, body: await registry.metrics() };
}

/** What is still to be told of threads that are no more: what they counted. Their gauges went with them. */
export async function countedBy(snapshots: readonly MetricsSnapshot[]): Promise<MetricsSnapshot> {
  const counted = snapshots.map((snapshot) => snapshot.filter(({ type }) => isCount(String(type))));
  return merged(counted).getMetricsAsJSON();
}

function isCount(type: string): boolean {
  return type === "counter" || type === "histogram";
}

function merged(snapshots: readonly MetricsSnapshot[]): Registry {
  return AggregatorRegistry.aggregate(snapshots.map((snapshot) => snapshot.map(ofOneService)));
}

/** What the library would leave out, or average: of lags an average says little, one loop that stands still is looked for. */
function ofOneService(metric: MetricsSnapshot[number]): MetricsSnapshot[number] {
  if (metric.name === "process_start_time_seconds") return { ...metric, aggregator: "first" };
  const isLag = metric.name.startsWith("nodejs_eventloop_lag") && metric.aggregator === "average";
  return isLag ? { ...metric, aggregator: "max" } : metric;
}
