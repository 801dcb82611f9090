import { defineConfig } from "vitest/config";

/** The tests that need tools beyond Node. They use ports and processes of the machine, so files run one by one. */
export default defineConfig({
  test: {
    include: ["test/system/**/*.test.ts"],
    testTimeout: 120_000,
    hookTimeout: 120_000,
    pool: "forks",
    globalSetup: "test/harness/shared-postgres.ts",
    fileParallelism: false,
  },
});
