/** What is installed is what was chosen: versions are exact, and archives are known by their hash. */
import { expect, test } from "vitest";
import packageFile from "../../package.json" with { type: "json" };
import lockFile from "../../package-lock.json" with { type: "json" };

const { dependencies, devDependencies, optionalDependencies } = packageFile;

test.each(Object.entries({ ...dependencies, ...devDependencies, ...optionalDependencies }))(
  "%s is of one exact version",
  (_, version) => {
    expect(version).toMatch(/^\d+\.\d+\.\d+(?:-[\w.]+)?$/);
  },
);

test("every locked package has its hash", () => {
  const installed = Object.entries(lockFile.packages).filter(([path]) => path !== "");
  expect(installed.length).toBeGreaterThan(100);
  const without = installed.filter(([, locked]) => !("integrity" in locked && locked.integrity.startsWith("sha512-")));
  expect(without.map(([path]) => path)).toEqual([]);
});
