import { defineConfig } from "vitest/config";

/** The tests that need Node alone. */
export default defineConfig({
  test: {
    include: ["test/{unit,contract,wire}/**/*.test.ts"],
    testTimeout: 20_000,
    hookTimeout: 20_000,
    // Processes of their own: native modules, worker threads and signals do not meet each other's.
    pool: "forks",
    maxWorkers: 2,
  },
});
