import { defineConfig } from "vitest/config";

/** Compile or install the packages of `clients`, in folders that all of them use. Only these files do. */
const clients = ["clients-{browser,checks,deno,languages,python,typescript}", "enforcement-*"].map(
  (name) => `test/system/${name}.test.ts`,
);

/**
 * The tests that need tools beyond Node. They use folders and processes of the machine, so the files of a project run one by
 * one; `.ci/run` runs the two projects side by side.
 */
export default defineConfig({
  test: {
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000 } },
    pool: "forks",
    globalSetup: "test/harness/shared-postgres.ts",
    fileParallelism: false,
    // Loading the modules of a gateway again for each file takes seconds.
    isolate: false,
    // Of tests that mostly wait.
    maxConcurrency: 4,
    projects: [
      { extends: true, test: { name: "clients", include: clients } },
      { extends: true, test: { name: "machine", include: ["test/system/**/*.test.ts"], exclude: clients } },
    ],
  },
});
