/** What operators deploy and watch with is of one piece: manifests, dashboards, alerts, their tests, runbook and metrics. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { dashboardJson, dashboards } from "../../scripts/dashboards.ts";
import { settings } from "../../src/config/settings.ts";
import { createMetrics } from "../../src/telemetry/metrics.ts";

const root = join(import.meta.dirname, "../..");
const textOf = (file: string) => readFileSync(join(root, file), "utf8");

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly runbook_url: string };
}
const rules: readonly Rule[] = parse(textOf("deploy/monitoring/alerts.yaml")).groups[0].rules;
const exposed = new Map(
  createMetrics({ process: true })
    .describe()
    .map((metric) => [metric.name, metric]),
);
const manifests = readdirSync(join(root, "deploy"), { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map(({ parentPath, name }) => join(parentPath, name).slice(root.length + 1));

test.each(manifests)("%s names existing settings", (file) => {
  const known = new Set<string>(Object.values(settings).map(({ name }) => name));
  const named = [...textOf(file).matchAll(/\bSVC_[A-Z_]*[A-Z]\b(?!\*|_)/g)].map(([name]) => name);
  expect(named.filter((name) => !known.has(name))).toEqual([]);
});

test("the chart and the compose file use existing metrics", () => {
  const files = manifests.filter((file) => !file.includes("/monitoring/"));
  const named = files.flatMap((file) => [...textOf(file).matchAll(/\bsvc_[a-z_]+/g)].map(([name]) => name));
  expect(named).toContain("svc_calls_waiting");
  expect(named.filter((name) => !exposed.has(name))).toEqual([]);
});

test.each(dashboards)("the dashboard $uid equals the one that its table makes", (dashboard) => {
  expect(textOf(`deploy/monitoring/dashboards/${dashboard.uid}.json`)).toBe(dashboardJson(dashboard));
});

describe("alert rules", () => {
  const tests: readonly { alert_rule_test: { alertname: string; exp_alerts: unknown[] }[] }[] = parse(
    textOf("deploy/monitoring/alerts.test.yaml"),
  ).tests;
  const runbook = textOf("docs/alerts.md");

  test.each(rules)(
    "$alert has a severity, a runbook paragraph with a command, and tests of both kinds",
    ({ alert, ...rule }) => {
      expect(["critical", "warning", "info"]).toContain(rule.labels.severity);
      expect(rule.annotations.runbook_url).toBe(`docs/alerts.md#${alert.toLowerCase()}`);
      const entry = runbook.split(/^## /m).find((each) => each.startsWith(`${alert}\n`));
      expect(entry).toMatch(/^\w+\n\n\S[\s\S]*\n```sh\n\S/);
      const expected = tests
        .flatMap((each) => each.alert_rule_test)
        .filter(({ alertname }) => alertname === alert)
        .map(({ exp_alerts }) => exp_alerts.length > 0);
      expect(expected.toSorted()).toEqual([false, true]);
    },
  );

  test("the runbook has no paragraph for another alert", () => {
    const headings = [...runbook.matchAll(/^## (\w+)$/gm)].map(([, name]) => name);
    expect(headings.toSorted()).toEqual(rules.map(({ alert }) => alert).toSorted());
  });
});

test("every metric and label that a rule reads is exposed", () => {
  const queries = [
    ...rules.map(({ expr }) => expr),
    ...dashboards.flatMap(({ panels }) => panels.flatMap(({ queries }) => queries.map(([expr]) => expr))),
  ];
  const ofScrape = ["job", "instance"];
  const unknown = queries.flatMap((query) =>
    [...query.matchAll(/\b((?:svc|nodejs|process)_\w+)(?:\{([^}]*)\})?/g)].flatMap(([, name = "", labels = ""]) => {
      const metric = exposed.get(name) ?? exposed.get(name.replace(/_(bucket|sum|count)$/, ""));
      if (metric === undefined) return [name];
      const asked = [...labels.matchAll(/(\w+)(?:=~|!~|!=|=)/g)].map(([, label = ""]) => label);
      return asked
        .filter((label) => ![...metric.labels, ...ofScrape].includes(label))
        .map((label) => `${name}.${label}`);
    }),
  );
  expect(unknown).toEqual([]);
});
