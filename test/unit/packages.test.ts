/** What is installed is what was chosen: versions are exact, and archives are known by their hash. */
import { expect, test } from "vitest";
import clientFile from "../../clients/typescript/package.json" with { type: "json" };
import packageFile from "../../package.json" with { type: "json" };
import lockFile from "../../package-lock.json" with { type: "json" };

const { devDependencies, optionalDependencies } = packageFile;
const dependencies = { ...clientFile.dependencies, ...packageFile.dependencies };

test.each(Object.entries({ ...dependencies, ...devDependencies, ...optionalDependencies }))(
  "%s is pinned to one exact version",
  (_, version) => {
    expect(version).toMatch(/^\d+\.\d+\.\d+(?:-[\w.]+)?$/);
  },
);

test("every locked package has its hash", () => {
  // Our own packages are not downloaded.
  const own = ["", ...packageFile.workspaces, `node_modules/${clientFile.name}`];
  const installed = Object.entries(lockFile.packages).filter(([path]) => !own.includes(path));
  expect(installed.length).toBeGreaterThan(100);
  const without = installed.filter(([, locked]) => !("integrity" in locked && locked.integrity.startsWith("sha512-")));
  expect(without.map(([path]) => path)).toEqual([]);
});
