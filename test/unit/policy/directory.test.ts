import { execFileSync } from "node:child_process";
import * as fileSystem from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { loadPolicyDirectory } from "../../../src/policy/check/check.ts";
import { loadPolicyTests } from "../../../src/policy/load/directory.ts";
import { describeProblem } from "../../../src/policy/model/problem.ts";
import { below, folderOf, memoryFileSystem, openFiles, permitAll } from "./harness.ts";

/** A new folder with the files of an open directory under `policies`, and a file beside it. */
const folder = () => folderOf({ ...below("policies", openFiles), "outside/b.cedar": permitAll.replace("all", "b") });

async function problemsIn(root: string): Promise<readonly string[]> {
  const { problems = [] } = await loadPolicyDirectory(join(root, "policies"), fileSystem);
  return problems.map(describeProblem);
}

test("a real directory loads, by a link too", async () => {
  const root = await folder();
  expect(await problemsIn(root)).toEqual([]);
  await fileSystem.symlink(join(root, "policies"), join(root, "link"));
  expect((await loadPolicyDirectory(join(root, "link"), fileSystem)).problems).toBeUndefined();
});

test("a file or a set outside of the directory is refused", async () => {
  const root = await folder();
  await fileSystem.symlink(join(root, "outside", "b.cedar"), join(root, "policies", "default", "b.cedar"));
  expect(await problemsIn(root)).toEqual([
    "default/b.cedar: is a link out of the policy directory (copy the file here)",
  ]);
  await fileSystem.rm(join(root, "policies", "default"), { recursive: true });
  await fileSystem.symlink("../outside", join(root, "policies", "default"));
  expect(await problemsIn(root)).toContain("default: is a link out of the policy directory (copy the file here)");
});

test.skipIf(process.platform === "win32")("a pipe without a writer is reported and does not block", async () => {
  const root = await folder();
  execFileSync("mkfifo", [join(root, "policies", "default", "c.cedar")]);
  expect(await problemsIn(root)).toEqual(["default/c.cedar: cannot be read (no regular file)"]);
});

test("no opened path comes from a tenant's name", async () => {
  const opened: string[] = [];
  const memory = memoryFileSystem({
    ...openFiles,
    "manifest.yaml": 'platform: platform\ntenants: { "*": default, secret-tenant: default }',
  });
  const watched = {
    ...memory,
    realpath: async (path: string) => {
      opened.push(path);
      return await memory.realpath(path);
    },
  };
  expect((await loadPolicyDirectory("/policies", watched)).problems).toBeUndefined();
  expect(opened.length).toBeGreaterThan(3);
  expect(opened.join()).not.toContain("secret-tenant");
});

const testsOf = async (text: string) =>
  await loadPolicyTests("/policies", memoryFileSystem({ ...openFiles, "tests/a.yaml": text }));
const good =
  "- { name: n, tenant: t, action: protect, claimed: { workload: { application: a }, resource: { kind: k } }, expect: { allow: true } }";

const withMember = (member: string) => good.replace("expect:", `${member}, expect:`);
const claiming = (member: string) => good.replace("claimed: {", `claimed: { ${member},`);
const registering = (member: string) => withMember(`registered: { resource: { kind: a }, ${member} }`);

test("expected decisions load with their places; a directory without them has none", async () => {
  const { tests, problems } = await testsOf(`# comment\n${good}`);
  expect(problems).toEqual([]);
  expect(tests).toMatchObject([{ name: "n", file: "tests/a.yaml", line: 2, query: { caller: { tenantId: "t" } } }]);
  expect(await loadPolicyTests("/policies", memoryFileSystem(openFiles))).toEqual({ tests: [], problems: [] });
});

test("what a question leaves out of registrations and subjects says as little as it can", async () => {
  const registered = "registered: { resource: { kind: record }, labels: [a], labels_ever: [b, a] }";
  const { tests } = await testsOf(
    withMember(`${registered}, on_behalf_of: { type: user, id: alice, properties: { a: b } }`),
  );
  expect(tests[0]?.query.registered).toEqual({
    labels: ["a"],
    // Every label was there once.
    labels_ever: ["a", "b"],
    attributes: {},
    resource: { kind: "record" },
    artifact_profile: "tdf",
    application: "test-application",
    principal: "test-principal",
    citation_matched: true,
    registered_at: 0,
  });
  expect(tests[0]?.query.onBehalfOf).toEqual({
    type: "user",
    id: "alice",
    properties: { a: "b" },
    property_values: ["a=b"],
  });
  expect((await testsOf(good)).tests[0]?.query).not.toHaveProperty("registered");
});

test.each([
  ["a: b", "must be a list of tests"],
  ["- [", /Flow sequence/],
  ["- x", "a test must be a map"],
  [good.replace("tenant: t", "tenant: ../t"), "tenant or principal_id is not a valid id"],
  [good.replace("protect", "prot"), "action must be one of protect, access"],
  [good.replace("kind", "kid"), "claimed.resource has an unknown member kid"],
  [good.replace("kind: k", "kind: 3"), "claimed.resource.kind must be text"],
  [good.replace("allow: true", "allow: maybe"), "expect.allow must be true or false"],
  [good.replace("allow: true", "allow: true, reasons: x"), "expect.reasons must be a list"],
  [
    good.replace("allow: true", "allow: true, guidance: { profile: tdf }"),
    "expect.guidance has an unknown member profile",
  ],
  [claiming("content_size_bytes: -1"), "claimed.content_size_bytes must be an integer from 0"],
  [claiming("content_digest_present: 1"), "claimed.content_digest_present must be true or false"],
  [claiming("artifact_profile: zip"), "artifact_profile must be one of tdf"],
  [withMember("registered: {}"), "registered.resource must be a map"],
  [withMember("registered: { resource: {} }"), "registered.resource.kind must be text"],
  [registering("label: [a]"), "registered has an unknown member label"],
  [registering("citation_matched: x"), "registered.citation_matched must be true"],
  [registering("registered_at: 1.5"), "registered.registered_at must be an integer"],
  [registering("attributes: { a: 1 }"), "registered.attributes.a must be text"],
  [withMember("on_behalf_of: { type: user }"), "on_behalf_of.id must be text"],
  [withMember("on_behalf_of: { type: user, id: a, name: b }"), "on_behalf_of has an unknown member name"],
])("an expected decision is refused: %s", async (text, message) => {
  const { tests, problems } = await testsOf(text);
  expect(tests).toEqual([]);
  expect(problems[0]?.file).toBe("tests/a.yaml");
  expect(problems[0]?.message).toMatch(
    message instanceof RegExp ? message : new RegExp(message.replaceAll(".", "\\.")),
  );
});

test.each<[string, number, string]>([
  ["default/large.cedar", 200, "policies, and their tests, may take 32 MiB together"],
  ["platform/large.cedar", 33, "policies, and their tests, may take 32 MiB together"],
  ["manifest.yaml", 5, "a manifest or schema may take 4 MiB"],
  ["schema.cedarschema", 5, "a manifest or schema may take 4 MiB"],
])("%s of %i MiB is refused without being read", async (file, mebibytes, limit) => {
  const small = memoryFileSystem({ ...openFiles, [file]: openFiles[file] ?? "" });
  const read: string[] = [];
  const large: typeof small = {
    ...small,
    stat: async (path) => ({
      ...(await small.stat(path)),
      ...(path === `/policies/${file}` && { size: mebibytes * 1024 * 1024 }),
    }),
    readFile: (path) => {
      read.push(path);
      return small.readFile(path);
    },
  };
  const { problems } = await loadPolicyDirectory("/policies", large);
  expect(problems?.map(describeProblem)).toContain(`${file}: is too large: ${limit}`);
  expect(read).not.toContain(`/policies/${file}`);
});

test("all files together are bounded as one file is", async () => {
  const half = `// ${"x".repeat(17 * 1024 * 1024)}\n`;
  const { problems } = await loadPolicyDirectory(
    "/policies",
    memoryFileSystem({ ...openFiles, "default/a.cedar": half, "platform/b.cedar": half }),
  );
  expect(problems?.map(describeProblem)).toContainEqual(expect.stringMatching(/^\w+\/[ab]\.cedar: is too large/));
});
