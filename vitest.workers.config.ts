import { defineConfig } from "vitest/config";

const wire = [
  ...["durability", "lifecycle", "two-gateways", "isolation", "policy-reload", "postgres", "witness", "workers"],
  ...["protocols", "attacks", "health", "dpop", "session", "stream-limits", "body-budget", "hostile", "slow-callers"],
  "certificates",
];

/** Crashes, kills, replicas and isolation once more, with two workers in every gateway; and what workers have in common. */
export default defineConfig({
  test: {
    env: { SVC_TEST_WORKERS: "2" },
    include: [...wire.map((name) => `test/wire/${name}.test.ts`), "test/system/replicas.test.ts"],
    testTimeout: 120_000,
    hookTimeout: 120_000,
    pool: "forks",
    maxWorkers: 2,
  },
});
