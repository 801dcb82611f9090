/** Nothing in a policy directory is silently left out: every entry is read, listed, or refused. */
import * as fileSystem from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { loadPolicyDirectory } from "../../../src/policy/check/check.ts";
import { readPolicyDirectory } from "../../../src/policy/load/directory.ts";
import { below, type Files, folderOf, memoryFileSystem, openFiles, permitAll, problemsOf } from "./harness.ts";

const forbidAll = permitAll.replace("permit", "forbid");
const asSets = "a set holds *.cedar files, in lowercase";
const asDocuments = "keep here what the policies need; documents are README, LICENSE and the like";

test.each([
  ["default/deny.ceder", `default/deny.ceder: is not read (${asSets})`],
  ["tests/deny.cedar", "tests/deny.cedar: is not read (expected decisions are *.yaml files in tests)"],
  ["deny.cedar", "deny.cedar: is not read (move it into the folder of a set)"],
  ["schema.cedarschema.json", `schema.cedarschema.json: is not read (${asDocuments})`],
  ["default/eu/deny.cedar", "default/eu: is not read: it is a folder within a set (move what it holds into default)"],
  ["tests/more/a.yaml", "tests/more: is not read (expected decisions are *.yaml files in tests)"],
  ["eu/deny.cedar", "eu: is not read: no tenant has this set (name it in the manifest, or remove it)"],
])("%s is refused, by its own name or its folder's", async (file, problem) => {
  expect(await problemsOf({ ...openFiles, [file]: forbidAll })).toEqual([problem]);
});

test("a misnamed set is reported from both sides", async () => {
  const files = { ...openFiles, "manifest.yaml": 'platform: platform\ntenants: { "*": defualt }' };
  expect(await problemsOf(files)).toEqual([
    "default: is not read: no tenant has this set (name it in the manifest, or remove it)",
    "manifest.yaml: the set defualt is missing (make the folder defualt with *.cedar files, or name another)",
  ]);
});

const harmless: Files = {
  "README.md": "",
  "LICENSE-APACHE.txt": "",
  "default/readme.de.md": "",
  "tests/CODEOWNERS": "",
  "tests/a.yaml": "[]",
  ".gitignore": "",
  ".git/config": "",
  "default/.deny.cedar.swp": "",
  "lost+found/x": "",
};

test("harmless files are listed, and no decision depends on them or on expected decisions", async () => {
  const files = memoryFileSystem({ ...openFiles, ...harmless });
  expect((await loadPolicyDirectory("/policies", files)).ignored).toEqual([
    ...[".git", ".gitignore", "LICENSE-APACHE.txt", "README.md", "default/.deny.cedar.swp", "default/readme.de.md"],
    ...["lost+found", "tests/CODEOWNERS"],
  ]);
  expect(await readPolicyDirectory("/policies", files)).toEqual(
    await readPolicyDirectory("/policies", memoryFileSystem(openFiles)),
  );
});

test("mounts of orchestrators are read through their links, and their own folders are listed", async () => {
  const version = "..2026_01_31_12_00_00.123456789";
  const root = folderOf(below(version, openFiles));
  await fileSystem.symlink(version, join(root, "..data"));
  for (const name of ["manifest.yaml", "platform", "default"]) {
    await fileSystem.symlink(join("..data", name), join(root, name));
  }
  await fileSystem.symlink("gone", join(root, ".#lock"));
  const loaded = await loadPolicyDirectory(root, fileSystem);
  expect(loaded.problems).toBeUndefined();
  expect(loaded.ignored).toEqual([".#lock", version, "..data"].sort());
});

test("a dangling link is refused like a file", async () => {
  const root = folderOf(openFiles);
  await fileSystem.symlink("gone", join(root, "default", "more"));
  expect((await loadPolicyDirectory(root, fileSystem)).problems).toMatchObject([{ file: "default/more" }]);
});

const name = fc.oneof(
  fc
    .tuple(
      fc.constantFrom("deny", "Deny", "README", "tests", "manifest", "schema", ".hidden", "..data", "b"),
      fc.constantFrom("", ".cedar", ".CEDAR", ".ceder", ".md", ".yaml", ".yml", ".cedarschema", "~", ".txt"),
    )
    .map((parts) => parts.join("")),
  fc.stringMatching(/^[A-Za-z._+ -]{1,12}$/).filter((text) => !/^\.{1,2}$/.test(text)),
);

test("every entry is read, listed or refused", async () => {
  const path = fc.oneof(
    name,
    fc.tuple(fc.constantFrom("default", "tests", "platform", "other"), name).map((parts) => parts.join("/")),
    fc.tuple(fc.constantFrom("default", "tests"), name, name).map((parts) => parts.join("/")),
  );
  await fc.assert(
    fc.asyncProperty(path, async (added) => {
      const files = { ...openFiles, [added]: forbidAll };
      // A file cannot be where a folder is.
      fc.pre(!Object.keys(openFiles).some((file) => file === added || file.startsWith(`${added}/`)));
      const memory = memoryFileSystem(files);
      const read = new Set<string>();
      const { problems = [], ignored = [] } = await loadPolicyDirectory("/policies", {
        ...memory,
        readFile: async (file) => {
          read.add(file.replace("/policies/", ""));
          return await memory.readFile(file);
        },
      });
      const isTest = /^tests\/[^./][^/]*\.ya?ml$/.test(added);
      const told = [...read, ...ignored, ...problems.map(({ file }) => file)];
      // Manifests beside each other are one problem.
      const isManifest = problems.some(
        ({ message }) => message.startsWith("there are several") && message.includes(added),
      );
      expect(isTest || isManifest || told.some((place) => added === place || added.startsWith(`${place}/`))).toBe(true);
    }),
    { examples: [["tests"]] },
  );
});
