import { defineConfig } from "vitest/config";

/** The tests that need PostgreSQL with Citus, which is not in every distribution: run by hand, see docs/scaling.md. */
export default defineConfig({
  test: {
    include: ["test/distributed/**/*.test.ts"],
    testTimeout: 60_000,
    hookTimeout: 120_000,
    pool: "forks",
    fileParallelism: false,
  },
});
