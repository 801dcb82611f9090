import { afterEach, beforeEach, expect, test } from "vitest";
import type { TenantId } from "../../../src/base/ids.ts";
import type { CompiledEngine } from "../../../src/policy/engine/bundle-engine.ts";
import type { PolicyDecision, PolicyQuery } from "../../../src/policy/engine/decision.ts";
import { differenceOf, PolicyShadow, type ShadowSample } from "../../../src/policy/tools/shadow.ts";
import { ask, engineOf, openFiles, permitAll } from "./harness.ts";
import { handTimers } from "./timers.ts";

const pauseMs = 9;
let active: CompiledEngine;
let shadow: PolicyShadow;
let compared: (string | undefined)[];
let samples: ShadowSample[];
let dropped: number;
let timers: ReturnType<typeof handTimers>;
/** What the clock of the slices says next. */
let elapsedMs: () => number;
let random: number;

beforeEach(async () => {
  active = await engineOf(openFiles);
  [compared, samples, dropped, timers, random] = [[], [], 0, handTimers(), 0];
  elapsedMs = () => 0;
  shadow = new PolicyShadow({
    share: 0.5,
    random: () => random,
    timers,
    elapsedMs: () => elapsedMs(),
    onCompared: (difference) => void compared.push(difference && `${difference.tenantId} ${difference.kind}`),
    onDropped: () => void dropped++,
    onSample: (sample) => void samples.push(sample),
  });
});

afterEach(() => {
  shadow.release();
  active.release();
});

const candidate = (policies: string) => engineOf({ ...openFiles, "default/all.cedar": policies });
const noLabels = `${permitAll} @id("x") forbid (principal, action, resource) when { !context.claimed.labels.isEmpty() };`;

function observe(query: PolicyQuery, decisionId = "id"): PolicyDecision {
  const decision = active.decide(query);
  shadow.observe(query, decision, decisionId);
  return decision;
}

test("differences are told of after the answer, with the tenant", async () => {
  shadow.replace(await candidate(noLabels));
  observe(ask("protect", { labels: ["a"] }), "first");
  observe(ask("protect"));
  expect(compared).toEqual([]);
  timers.fire(pauseMs);
  expect(compared).toEqual(["tenant-a denies", undefined]);
  expect(samples).toMatchObject([
    { decisionId: "first", action: "protect", count: 1, active: { allow: true }, candidate: { reasons: ["tenant/x"] } },
  ]);
  expect(timers.waiting.size).toBe(0);
});

test("samples thin out as differences of a kind grow, for each tenant and pair of revisions", async () => {
  shadow.replace(await candidate(noLabels));
  for (let i = 0; i < 20; i++) observe(ask("protect", { labels: ["a"] }));
  observe(ask("protect", { labels: ["a"] }, { tenantId: "tenant-b" as TenantId }));
  timers.fire(pauseMs);
  expect(compared).toHaveLength(21);
  expect(samples.map(({ tenantId, count }) => `${tenantId} ${count}`)).toEqual([
    ...[1, 2, 4, 8, 16].map((count) => `tenant-a ${count}`),
    "tenant-b 1",
  ]);
  shadow.replace(await candidate(`${noLabels} // changed`));
  observe(ask("protect", { labels: ["a"] }));
  timers.fire(pauseMs);
  expect(samples.at(-1)).toMatchObject({ tenantId: "tenant-a", count: 1 });
});

test("only the share is compared", async () => {
  shadow.replace(await candidate(permitAll));
  random = 0.5;
  observe(ask("protect"));
  expect(timers.waiting.size).toBe(0);
  random = 0.49;
  observe(ask("protect"));
  timers.fire(pauseMs);
  expect(compared).toHaveLength(1);
});

test("a slice ends when its time is up, and the rest waits for the next", async () => {
  shadow.replace(await candidate(permitAll));
  let now = 0;
  elapsedMs = () => now++ / 2;
  for (let i = 0; i < 5; i++) observe(ask("protect"));
  timers.fire(pauseMs);
  expect(compared).toHaveLength(2);
  timers.fire(pauseMs);
  timers.fire(pauseMs);
  expect(compared).toHaveLength(5);
  expect(timers.waiting.size).toBe(0);
});

test("what does not fit in the queue is dropped and counted", async () => {
  shadow.replace(await candidate(permitAll));
  for (let i = 0; i < 260; i++) observe(ask("protect"));
  expect(dropped).toBe(4);
  timers.fire(pauseMs);
  expect(compared).toHaveLength(256);
});

test("without a candidate nothing waits; after the end nothing is compared", async () => {
  observe(ask("protect"));
  expect(timers.waiting.size).toBe(0);
  shadow.replace(await candidate(permitAll));
  observe(ask("protect"));
  shadow.release();
  expect(timers.waiting.size).toBe(0);
  expect([compared, shadow.revision]).toEqual([[], undefined]);
});

test.each([
  ["denies", '@id("no") forbid (principal, action, resource);', []],
  ["guides", permitAll.replace("permit", '@handling_mode("other") @warning("w") permit'), ["handlingMode", "warnings"]],
  ["reasons", permitAll.replace("all", "renamed"), []],
  [undefined, `${permitAll} // the same`, []],
])("a candidate that %s", async (kind, policies, guidance) => {
  const other = await candidate(policies);
  const [first, second] = [active.decide(ask("protect")), other.decide(ask("protect"))];
  expect(differenceOf(first, second)).toEqual(kind && { kind, guidance });
  if (kind === "denies") expect(differenceOf(second, first)).toEqual({ kind: "allows", guidance: [] });
  other.release();
});

test("what was not looked up is not held against a candidate that reads it", async () => {
  const reading = `${permitAll} @id("x") forbid (principal, action, resource) unless { context has registered };`;
  shadow.replace(await candidate(reading));
  const query = ask("protect");
  shadow.observe(query, active.decide(query), "id", false);
  timers.fire(pauseMs);
  expect([compared, dropped]).toEqual([[], 1]);
  shadow.observe(query, active.decide(query), "id", true);
  timers.fire(pauseMs);
  expect(compared).toEqual(["tenant-a denies"]);
});
