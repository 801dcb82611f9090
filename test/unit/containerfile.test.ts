import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const root = join(import.meta.dirname, "../..");
const linesOf = (path: string) => readFileSync(join(root, path), "utf8").trimEnd().split("\n");

/** Whether a build gets the path: the last pattern that matches it decides. */
function isSent(path: string, patterns: readonly string[]): boolean {
  const last = patterns.findLast((pattern) => {
    const bare = pattern.replace(/^!/, "");
    return bare === "*" || path === bare || path.startsWith(`${bare}/`);
  });
  return last === undefined || last.startsWith("!");
}

test("the build of the image gets all that its Containerfile copies, and nothing that it makes itself", () => {
  const patterns = linesOf("deploy/Containerfile.dockerignore");
  const copied = linesOf("deploy/Containerfile").flatMap((line) => {
    const [instruction, ...paths] = line.split(" ");
    return instruction === "COPY" && !line.includes("--from=") ? paths.slice(0, -1) : [];
  });
  expect(copied).toContain("console");
  expect(copied.filter((path) => !isSent(path, patterns))).toEqual([]);
  for (const made of ["node_modules", "console/node_modules", "console/dist"])
    expect(isSent(made, patterns)).toBe(false);
});
