/** Manifests name nothing that the service does not have. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { settings } from "../../src/config/settings.ts";

const root = join(import.meta.dirname, "../..");
const filesIn = (folder: string) =>
  readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name));

describe.each(filesIn("deploy").map((path) => [path.slice(root.length + 1), path]))("%s", (_name, path) => {
  test("names existing settings", () => {
    const known = new Set<string>(Object.values(settings).map(({ name }) => name));
    const named = [...readFileSync(path, "utf8").matchAll(/\bSVC_[A-Z_]*[A-Z]\b(?!\*|_)/g)].map(([name]) => name);
    expect(named.filter((name) => !known.has(name))).toEqual([]);
  });
});

test("the chart and the compose file use existing metrics", () => {
  const counted = filesIn("src").map((path) => readFileSync(path, "utf8"));
  const known = new Set(counted.flatMap((text) => [...text.matchAll(/"(svc_\w+)"/g)].map(([, name]) => name)));
  const files = filesIn("deploy").filter((path) => !path.includes("/monitoring/"));
  const named = files.flatMap((path) =>
    [...readFileSync(path, "utf8").matchAll(/\bsvc_[a-z_]+/g)].map(([name]) => name),
  );
  expect(named).toContain("svc_calls_waiting");
  expect(named.filter((name) => !known.has(name))).toEqual([]);
});
