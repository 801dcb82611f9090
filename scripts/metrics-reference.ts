/**
 * The reference of metrics, `docs/metrics.md`, made from what the service exposes. `npm run docs:metrics` writes its
 * tables between their marks; a test compares.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createMetrics, type MetricDescription } from "../src/telemetry/metrics.ts";

const begin = "<!-- metrics: npm run docs:metrics -->\n";
const end = "<!-- end of metrics -->";

/** The document with its tables up to date. Throws if the marks are missing. */
export function withMetricsTables(document: string): string {
  const from = document.indexOf(begin);
  const to = document.indexOf(end);
  if (from === -1 || to < from) throw new Error("the document has no marks for the tables of metrics");
  return `${document.slice(0, from + begin.length)}\n${tables()}\n${document.slice(to)}`;
}

function tables(): string {
  const all = createMetrics({ process: true }).describe();
  const isOwn = ({ name }: MetricDescription) => name.startsWith("svc_");
  return [
    ...["## Of the service", "", ...table(all.filter(isOwn))],
    ...["## Of the process", "", ...table(all.filter((metric) => !isOwn(metric)))],
  ].join("\n");
}

function table(metrics: readonly MetricDescription[]): string[] {
  return ["| metric | type | labels | meaning |", "|---|---|---|---|", ...metrics.map(row), ""];
}

function row({ name, type, labels, help }: MetricDescription): string {
  const named = labels.map((label) => `\`${label}\``).join(", ");
  return `| \`${name}\` | ${type} | ${named} | ${help.replace(/\.$/, "").replaceAll("|", "\\|")}. |`;
}

if (import.meta.main) {
  const file = join(import.meta.dirname, "../docs/metrics.md");
  writeFileSync(file, withMetricsTables(readFileSync(file, "utf8")));
  // Process observers would keep this process running.
  process.exit();
}
