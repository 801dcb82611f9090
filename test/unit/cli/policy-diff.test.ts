import { rmSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { directory, eachInDirectory, fileOf, policiesOf, refused, run as runCommand } from "./surroundings.ts";

eachInDirectory();
beforeEach(() => {
  for (const name of ["old", "new"]) policiesOf(name);
});

const write = (of: string, file: string, policy: string) => fileOf(`${of}/set/${file}`, policy);
const run = (...options: string[]) => runCommand("policy", ...options);
const diff = (...options: string[]) => run("diff", join(directory, "old"), join(directory, "new"), ...options);
const forbid = (condition: string) => `@id("none") forbid (principal, action, resource) when { ${condition} };`;
const sum = "context.claimed has content_size_bytes && context.claimed.content_size_bytes + 1 > 9";

test("equal sets, and refactored ones, have no difference", async () => {
  write("old", "none.cedar", forbid('["a", "b"].contains(context.claimed.resource.kind)'));
  write("new", "none.cedar", forbid('context.claimed.resource.kind == "a" || context.claimed.resource.kind == "b"'));
  const { out, err, code } = await diff("--sampled");
  expect([err, code]).toEqual(["", 0]);
  expect(out).toContain("0 ways in which they are decided differently");
});

test("sets of equal form need no proof", async () => {
  write("old", "none.cedar", forbid(sum));
  write("new", "none.cedar", `${forbid(sum)} // the same`.replace(" when", "\nwhen"));
  expect(await diff()).toMatchObject({
    code: 0,
    err: "",
    out: expect.stringContaining("the directories say the same"),
  });
  expect(JSON.parse((await diff("--json")).out)).toMatchObject({ ok: true, exhaustive: true, changes: 0, summary: [] });
});

test("a change is shown with an example, which runs and is decided as stated", async () => {
  write("new", "none.cedar", forbid('context.claimed.labels.contains("secret") && !principal.scopes.contains("s")'));
  const { out, err, code } = await diff();
  expect([err, code]).toEqual(["1 difference found\n", 1]);
  expect(out.split("\n").slice(1, 7)).toEqual([
    "set/none is added",
    expect.stringMatching(/^asked \d+ questions: 1 ways in which they are decided differently$/),
    "denies: protect, access, rewrap, wrap, unwrap, rewrapKey for any other tenant",
    "  was ALLOW, because of platform/all, tenant/all",
    "  is DENY, because of platform/none, tenant/none",
    expect.stringMatching(/^ {2}example: \{"tenant":.*"labels":\["secret"\]/),
  ]);
  const { ok, changes, exhaustive, ways } = JSON.parse((await diff("--json")).out);
  expect([ok, exhaustive, changes]).toEqual([false, false, ways.length]);
  const file = fileOf("question.json", JSON.stringify(ways[0].example));
  for (const [name, side] of [
    ["old", "before"],
    ["new", "after"],
  ] as const) {
    const explained = await run("explain", join(directory, name), "--request", file, "--json");
    const { allow, reasons } = JSON.parse(explained.out);
    expect({ allow, reasons }).toEqual(ways[0][side]);
  }
});

test("exits with 1 if there are more differences than allowed, with 3 if that is unknown", async () => {
  write("new", "none.cedar", forbid("context.claimed has purpose"));
  const { changes } = JSON.parse((await diff("--json")).out);
  expect(await diff("--max-changes", String(changes), "--sampled")).toMatchObject({ code: 0, err: "" });
  await refused(diff("--max-changes", String(changes)), "no proof", 3);
  await refused(diff("--max-changes", "0", "--sampled"), "1 difference found\n");
  expect(JSON.parse((await diff("--json")).out)).toMatchObject({ ok: false, changes });

  write("old", "none.cedar", forbid(sum));
  write(
    "new",
    "none.cedar",
    forbid("context.claimed has content_size_bytes && context.claimed.content_size_bytes > 8"),
  );
  await refused(diff(), "--sampled accepts what was asked", 3);
  expect(await diff("--sampled")).toMatchObject({ code: 0, err: "" });
});

test("the questions of both directories' tests are asked, and with one member changed", async () => {
  const test = (purpose: string) =>
    `- { name: t, tenant: t, action: protect, expect: { allow: true },
         claimed: { workload: { application: a }, resource: { kind: k }, labels: [x, y], purpose: ${purpose} } }`;
  fileOf("old/tests/a.yaml", test("one"));
  fileOf("new/tests/b.yaml", test("two"));
  const { asked } = JSON.parse((await diff("--json", "--sampled")).out);
  rmSync(join(directory, "new", "tests"), { recursive: true });
  const { asked: fewer } = JSON.parse((await diff("--json", "--sampled")).out);
  expect(asked).toBeGreaterThan(fewer);
  fileOf("old/tests/a.yaml", "- no test");
  await refused(diff(), "tests/a.yaml", 2);
});

test("exits with 2 if nothing was compared", async () => {
  write("new", "none.ceder", forbid("true"));
  await refused(diff("--max-changes", "0"), "set/none.ceder: is not read", 2);
  rmSync(join(directory, "new", "set", "none.ceder"));
  await refused(diff("--tenant", "t"), "--tenant: is about --since\n", 2);
  await refused(diff("--since", "1d", "--tenant", "../t"), "--tenant: is not a tenant id\n", 2);
  expect(await run("diff", join(directory, "old"), join(directory, "nowhere"))).toMatchObject({ code: 2 });
  await refused(diff("--max-change", "0"), "unknown option '--max-change'", 2);
  await refused(diff("--since", "yesterday"), "must be like 7d", 2);
  await refused(run("diff", join(directory, "old")), "missing required argument 'new'", 2);
  expect(await run("diff", "--help")).toMatchObject({ code: 0 });
});

test.each([
  ["--since", "yesterday"],
  ["--since", "2026-13-01T00:00:00Z"],
  ["--max-changes", "-1"],
  ["--max-changes", "many"],
])("%s %s is refused", async (option, value) => {
  await refused(diff(option, value), option, 2);
});

test("check names a policy that applies to no request, and fails if strict", async () => {
  const [kind, other] = ["a", "b"].map((word) => `context.claimed.resource.kind == "${word}"`);
  write("new", "none.cedar", `\n${forbid(`${kind} && ${other}`)}`);
  const line = "set/none.cedar:2: none applies to no request";
  const checked = await run("check", join(directory, "new"));
  expect(checked).toMatchObject({ code: 0, out: expect.stringMatching(`\n${line}\n$`) });
  await refused(run("check", join(directory, "new"), "--strict"), `${line}\n`);
  expect(JSON.parse((await run("check", join(directory, "new"), "--json")).out)).toMatchObject({
    ok: true,
    never_apply: [{ id: "none", file: "set/none.cedar", line: 2 }],
  });
  expect(await run("check", join(directory, "old"), "--strict")).toMatchObject({ code: 0 });
});

test("check names a permit whose reading of the subject cannot depend on it", async () => {
  const permit = (id: string, condition: string) =>
    `@id("${id}") permit (principal, action, resource) when { context has on_behalf_of && ${condition} };\n`;
  const [subject, vain] = ["context.on_behalf_of.id", permit("vain", 'context.on_behalf_of.id like "*"')];
  write("new", "vain.cedar", permit("counts", `${subject} == "a"`) + vain);
  const { code, out } = await run("check", join(directory, "new"), "--json");
  expect(code).toBe(0);
  expect(JSON.parse(out).never_on_behalf_of).toEqual([{ id: "vain", file: "set/vain.cedar", line: 2 }]);
  expect((await run("check", join(directory, "new"))).out).toContain(
    "set/vain.cedar:2: vain reads context.on_behalf_of, but",
  );
});
