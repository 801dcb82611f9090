import { expect, test } from "vitest";
import { followPolicy } from "../../../src/app/followed-policy.ts";
import type { GoodPolicy } from "../../../src/app/live-policy.ts";
import { readConfig } from "../../../src/config/config.ts";
import { systemFiles } from "../../../src/config/load.ts";
import { compareBundle } from "../../../src/policy/check/check.ts";
import { PolicyTable } from "../../../src/policy/check/policy-table.ts";
import { loadPolicyDirectory } from "../../../src/policy/load/directory.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { createMetrics } from "../../../src/telemetry/metrics.ts";
import { ask, memoryFileSystem, openFiles } from "../policy/harness.ts";
import { handTimers } from "../policy/timers.ts";

const settings = (() => {
  const env = {
    SVC_OIDC_ISSUER: "http://localhost",
    SVC_POLICY_DIR: ".",
    SVC_LEDGER_ORIGIN: "localhost/test",
    SVC_PROOF_OF_POSSESSION: "none",
  };
  const read = readConfig(env, undefined, { uses: "serve", files: systemFiles });
  if ("problems" in read) throw new Error(read.problems.join("; "));
  return read.config;
})();

/** A set whose text, which Cedar reads, denies what its compiled policies allow: as if these were wrong. */
async function misjudged(id: string): Promise<GoodPolicy> {
  const files = { ...openFiles, "default/all.cedar": `@id("${id}") permit (principal, action, resource);` };
  const { bundle } = await loadPolicyDirectory("/policies", memoryFileSystem(files), {});
  if (bundle === undefined) throw new Error("the set is not good");
  const compared = compareBundle(bundle);
  const sets = [...compared.sets].map(([name, policies]) => {
    const text = `@id("${id}") permit (principal, action, resource) when { context.claimed has nothing };`;
    const others = Array.from(policies, (policy) => ({ ...policy, text }));
    return [name, name === "default" ? PolicyTable.of(others) : policies] as const;
  });
  return { bundle, checked: { ...compared, sets: new Map(sets) } };
}

const machine = {
  timers: handTimers(),
  logger: createLogger({ level: "fatal", serviceName: "test", destination: { write: () => {} } }),
  metrics: createMetrics({ process: false }),
};
const allows = ({ engine }: Awaited<ReturnType<typeof followPolicy>>) => engine.decide(ask("access")).allow;

test("Cedar alone decides under a revision of which another thread has seen that it disagrees", async () => {
  const [active, next] = [await misjudged("one"), await misjudged("two")];
  const start = { active, status: { newest: "in_force" } } as const;
  const policy = await followPolicy(settings, machine, { ...start, cedarAlone: [] });
  const revision = policy.engine.revision;
  expect(allows(policy)).toBe(true);
  policy.useCedar("sha256:another");
  expect(allows(policy)).toBe(true);
  policy.useCedar(revision);
  expect(allows(policy)).toBe(false);

  await policy.prepare("active", next);
  policy.install("active");
  expect(policy.engine.revision).not.toBe(revision);
  expect(allows(policy)).toBe(true);
  // Back again, it is as it was.
  await policy.prepare("active", active);
  policy.install("active");
  expect(allows(policy)).toBe(false);
  policy.release();

  // And in a thread that begins with it.
  const later = await followPolicy(settings, machine, { ...start, cedarAlone: [revision] });
  expect(allows(later)).toBe(false);
  later.release();
});
