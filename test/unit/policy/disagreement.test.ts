import { expect, test, vi } from "vitest";
import { openLivePolicy } from "../../../src/app/live-policy.ts";
import { byCedar } from "../../../src/cli/policy/directory.ts";
import { readConfig } from "../../../src/config/config.ts";
import { systemFiles } from "../../../src/config/load.ts";
import { fixedLimits } from "../../../src/config/settings.ts";
import { checkBundle } from "../../../src/policy/check/check.ts";
import { compileInTurns, engineOf } from "../../../src/policy/engine/engine.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { createMetrics } from "../../../src/telemetry/metrics.ts";
import { manualTime } from "../auth/world.ts";
import { ask, bundleOf, folderOf, openFiles } from "./harness.ts";

// An evaluator that is wrong: it takes every two texts for equal.
vi.mock("../../../src/policy/evaluate/values.ts", async (original) => {
  const values = await original<typeof import("../../../src/policy/evaluate/values.ts")>();
  const areEqual: typeof values.areEqual = (left, right) => typeof left === "string" || values.areEqual(left, right);
  return { ...values, areEqual };
});
// The thread in which sets are checked would have the one that is right.
vi.mock("../../../src/policy/check/check-thread.ts", async (original) => ({
  ...(await original<object>()),
  checkBundleInThread: async (bundle: Parameters<typeof checkBundle>[0]) => checkBundle(bundle),
}));

const misjudged =
  '@id("not-audit")\npermit (principal, action, resource)\nwhen { context.claimed.workload.application != "audit" };';
const files = { ...openFiles, "default/all.cedar": misjudged };
/** Cedar allows it, and the compiled policies do not. */
const query = ask("access");
const difference = "not-audit at default/all.cedar:1: applies as Cedar has it, nothing as it was compiled";

const bundle = () => bundleOf(files);

test("a wrongly compiled set is detected before it decides, and Cedar alone decides", async () => {
  const { disagreements } = checkBundle(await bundle());
  expect([...disagreements]).toEqual([["default", difference]]);
  expect(engineOf(await bundle()).decide(query).allow).toBe(true);
});

test("commands that judge decisions ask Cedar, whatever was compiled", async () => {
  const unchecked = { ...checkBundle(await bundle()), disagreements: new Map() };
  const compiled = await compileInTurns(await bundle(), unchecked);
  expect(compiled.decide(query).allow).toBe(false);
  const engine = await compileInTurns(await bundle(), unchecked, byCedar);
  expect(engine.decide(query).allow).toBe(true);
});

test("a service that loads such a set reports and counts it, and decides as Cedar does", async () => {
  const env = {
    SVC_OIDC_ISSUER: "http://localhost",
    SVC_POLICY_DIR: folderOf(files),
    SVC_LEDGER_ORIGIN: "localhost/test",
    SVC_PROOF_OF_POSSESSION: "none",
  };
  const read = readConfig(env, undefined, { uses: "serve", files: systemFiles });
  if ("problems" in read) throw new Error(read.problems.join("; "));
  const lines: string[] = [];
  const logger = createLogger({
    level: "info",
    serviceName: "test",
    destination: { write: (line) => lines.push(line) },
  });
  const metrics = createMetrics({ process: false });
  const policy = await openLivePolicy({ ...read.config, ...fixedLimits }, { timers: manualTime(), logger, metrics });
  expect(policy.decide(query).allow).toBe(true);
  const errors = lines.map((line) => JSON.parse(line)).filter(({ event }) => event === "policy_disagreement");
  expect(errors).toEqual([expect.objectContaining({ set: "default", disagreement: difference })]);
  expect((await metrics.expose()).body).toContain("svc_policy_sets_disagreeing 1");
});
