import { accessSync, constants, statfsSync } from "node:fs";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { threadBundle } from "./test/harness/thread-bundle.ts";

/** What two test files keep at once is some 300 MiB; three run at a time. */
const roomBytes = 2 * 1024 ** 3;

/**
 * Stores of tests stand in memory where the system has a folder for that: their thousands of commits would wait for the
 * disk. What a killed process leaves is the same there; what a disk keeps through a loss of power no test shows.
 */
function temporaryFolder(): Record<string, string> {
  const folder = "/dev/shm";
  if (process.env.TMPDIR !== undefined) return {};
  try {
    accessSync(folder, constants.W_OK);
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize < roomBytes ? {} : { TMPDIR: folder };
  } catch {
    return {};
  }
}

/** Count what a module has done since it was loaded, put another in its place, or look at all objects of the process. */
const isolated = [
  "enforce/artifacts",
  "enforce/files",
  "policy/prepared-set",
  "policy/disagreement",
  "http/connection",
].map((name) => `test/unit/${name}.test.ts`);

/** Random searches, which the long lane repeats with more draws. */
const searches = [
  "test/contract/search-{postgres,segments,sqlite}.test.ts",
  "test/unit/auth/token-shapes.test.ts",
  "test/unit/cli/policy-prove.test.ts",
  "test/unit/enforce/{artifacts,detached-signature,envelope}.test.ts",
  "test/unit/ledger/multi-proof.test.ts",
  "test/unit/policy/{compare,laws,on-behalf-of}.test.ts",
  "test/unit/transport/{codec/json-reader,codec/rules,rest/answer}.test.ts",
  "test/wire/{enforcement,protocols}.test.ts",
];

/** Short files that take long: most run a suite over a store. */
const longest =
  /(bulk-stream-kills|enforcement-swaps|model|isolation|simulation|(erasure|ledger|registration|rotation|search|shared)-(postgres|sqlite))\.test\.ts$/;

/** Begins each project with its longest files: one that begins last runs alone, while other cores have nothing to do. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const projects = [...new Set(sorted.map(({ project }) => project))];
    const place = ({ project, moduleId }: TestSpecification) =>
      2 * projects.indexOf(project) + (longest.test(moduleId) ? 0 : 1);
    return sorted.toSorted((a, b) => place(a) - place(b));
  }
}

/** The tests that need Node alone. */
export default defineConfig({
  plugins: [threadBundle],
  // The client package is built for those who install it; here its sources are what is tested.
  resolve: {
    alias: [
      { find: /^svc-platform-client$/, replacement: `${import.meta.dirname}/clients/typescript/src/index.ts` },
      {
        find: /^svc-platform-client\/(bulk|node|receipts)$/,
        replacement: `${import.meta.dirname}/clients/typescript/src/$1.ts`,
      },
    ],
  },
  test: {
    env: temporaryFolder(),
    // Against hanging alone: a machine that is busy with something else is several times slower.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 30_000 } },
    // Processes of their own: native modules, worker threads and signals do not meet each other's.
    pool: "forks",
    globalSetup: "test/harness/shared-postgres.ts",
    // Each gateway and store starts threads, which would compile the same modules from TypeScript again and again.
    setupFiles: "src/runtime/compile-cache.js",
    // One more than the cores of a small machine: files wait for threads, databases and timers.
    maxWorkers: 3,
    sequence: { sequencer: LongestFirst },
    projects: [
      { extends: true, test: { name: "isolated", include: isolated } },
      // Loading the same modules for each file takes most of the time of a small one, so files of a project share processes.
      { extends: true, test: { name: "unit", include: ["test/unit/**/*.test.ts"], exclude: isolated, isolate: false } },
      {
        extends: true,
        test: { name: "wire", include: ["test/{contract,simulation,wire}/**/*.test.ts"], isolate: false },
      },
      // Kills, floods and searches that take minutes: `npm run test:long`, which `.ci/run` runs once.
      {
        extends: true,
        test: {
          name: "long",
          include: ["test/{long,model}/**/*.test.ts", ...searches],
          env: { LONG_TESTS: "on" },
          // Many draws beside other work.
          testTimeout: 300_000,
        },
      },
    ],
  },
});
