/** `ledger report`, on a store that a service has written. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { manualClock, storeIn } from "../../contract/ledger-records.ts";
import { decision, evidence } from "../ledger/pack/records.ts";
import { type Change, directory, eachWithStore, erasing, execute, refused, run, servedTo } from "./surroundings.ts";

const startMs = Date.UTC(2026, 0, 30);
const period = ["--from", "2026-01-30T00:00:00Z", "--to", "2026-02-02T00:00:00Z"];
const markup = `"><img src=x onerror="alert(1)">\u202e'`;
let clock = manualClock(startMs);
let out: string;
/** Ids of the records, in order. */
let ids: readonly string[];

const denied = (reasons: readonly string[]) => ({
  ...decision(false, "access"),
  outcome: { allow: false, policy_revision: "sha256:0123", reasons: [...reasons] },
});
const hostile = {
  ...decision(false, markup),
  request: { operation: markup, resource: { kind: markup, id: markup }, purpose: markup, artifact_digest: markup },
  outcome: { allow: false, policy_revision: markup, reasons: [markup], alerts: ["break-glass", markup] },
};

/** A record every six hours. */
const records: readonly Change[] = [
  () => decision(true, "access"),
  ([id]) => evidence("access", { decision: id as string }),
  () => decision(true, "access"),
  () => denied(["tenant/a"]),
  () => denied([]),
  () => decision(true, "protect"),
  () => hostile,
];

eachWithStore();
beforeEach(async () => {
  clock = manualClock(startMs);
  out = join(directory, "report.html");
  ids = (await servedTo("alice", records, { clock, stepMs: 6 * 3_600_000 })).map(({ recordId }) => recordId);
});

const report = (template: string, ...options: string[]) =>
  run("ledger", "report", "--tenant", "alice", "--template", template, "--out", out, ...period, ...options);

/** Ids in the appendix, in order. */
function listed(): readonly string[] {
  const html = readFileSync(out, "utf8");
  return html.slice(html.indexOf('class="ids"')).match(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g) ?? [];
}

describe("a report lists", () => {
  test.each([
    ["access", [0, 2]],
    ["denials", [3, 4, 6]],
    ["unevidenced", [2, 5]],
    ["break-glass", [6]],
    ["erasures", []],
  ])("%s", async (template, expected) => {
    const { out: said, code } = await report(template);
    expect([code, said]).toEqual([0, expect.stringContaining(`${expected.length} records of ledger.example/`)]);
    expect(listed()).toEqual(expected.map((at) => ids[at]));
  });

  test("erasures with the operator, the reason and the erased record", async () => {
    clock.nowMs = Date.now();
    const now = ["ledger", "report", "--tenant", "alice", "--template", "erasures", "--out", out, "--last", "1h"];
    await run("ledger", "erase", "--tenant", "alice", "--record", ids[3] ?? "", ...erasing);
    expect(await run(...now, "--csv")).toMatchObject({ code: 0 });
    expect(readFileSync(join(directory, "report.csv"), "utf8")).toMatch(
      new RegExp(`^[^\n]+\n[^,]+,olga,erasure,record/${ids[3]},,,request 1,,[0-9a-f-]{36},,\\d+\n$`),
    );
    // What was erased is in no other report.
    out = join(directory, "denials.html");
    await report("denials");
    expect(listed()).toEqual([ids[4], ids[6]]);
  });

  test("only records of the period", async () => {
    const first = ["--template", "denials", "--from", "2026-01-30T12:00:00Z", "--to", "2026-01-30T18:00:00.001Z"];
    expect(await run("ledger", "report", ...first, "--out", out)).toMatchObject({ code: 0 });
    expect(listed()).toEqual([ids[3]]);
    expect(readFileSync(out, "utf8")).toContain(
      "2026-01-30T12:00:00.000Z up to, and without, 2026-01-30T18:00:00.001Z",
    );
  });
});

test("a report is deterministic for the same log", async () => {
  await report("denials", "--csv");
  const first = readFileSync(out, "utf8");
  expect(first).toContain(`ledger report --tenant alice --template denials --from 2026-01-30T00:00:00.000Z`);
  // Without an ending, the table has one of its own.
  out = join(directory, "again");
  await report("denials", "--csv");
  expect(readFileSync(out, "utf8")).toBe(first);
  expect(readFileSync(join(directory, "again.csv"))).toEqual(readFileSync(join(directory, "report.csv")));
});

test("a report is one file that loads nothing and runs nothing, whatever callers wrote", async () => {
  await report("denials", "--csv");
  const html = readFileSync(out, "utf8");
  expect(html).toContain("&quot;&gt;&lt;img src=x onerror=&quot;alert(1)&quot;&gt;\\u202e&#39;");
  expect(html).not.toMatch(/<img|<script|<link|<iframe|\son\w+="|\u202e|url\(|@import/);
  expect(html.match(/\b(href|src)="[^"]*"/g)).toBeNull();
  expect(html).toContain(`content="default-src 'none'; style-src &#39;sha256-`);
  expect(readFileSync(join(directory, "report.csv"), "utf8")).toContain(`"""><img src=x`);
});

test("the cover counts decisions by their evidence, and names the checkpoint that covers them", async () => {
  await report("access");
  const html = readFileSync(out, "utf8");
  expect(html).toContain("<dt>Evidence: evidenced</dt><dd>1</dd>");
  expect(html).toContain("<dt>Evidence: missing</dt><dd>1</dd>");
  expect(html).toMatch(/<pre>ledger\.example\/[0-9a-f]+\n8\n\S{44}\n\n— ledger\.example\//);
  expect(html.match(/<svg/g)).toHaveLength(2);
  expect(html).toContain("<title>2026-01-30: 2</title>");
});

test("evidence beyond the checkpoint of a report does not count", async () => {
  const { anchorPath } = storeIn(directory);
  const [decided] = await servedTo("bob", [() => decision(true, "access")], { clock });
  const anchored = "FROM anchored_logs WHERE tenant_id = 'bob'";
  const [{ size, root } = {}] = execute(`SELECT size, hex(root) AS root ${anchored}`, anchorPath);
  await servedTo("bob", [() => evidence("access", { decision: decided?.recordId ?? "" })], { clock });
  const ofBob = ["ledger", "report", "--tenant", "bob", "--template", "access", ...period];
  expect(await run(...ofBob, "--out", out)).toMatchObject({ code: 0 });
  expect(readFileSync(out, "utf8")).toContain("<dt>Evidence: evidenced</dt><dd>1</dd>");
  // A service that is about to advance the anchor.
  execute(`UPDATE anchored_logs SET size = ${size}, root = x'${root}' WHERE tenant_id = 'bob'`, anchorPath);
  const before = join(directory, "before.html");
  expect(await run(...ofBob, "--out", before)).toMatchObject({ code: 0 });
  expect(readFileSync(before, "utf8")).toContain("<dt>Evidence: missing</dt><dd>1</dd>");
});

test.each([
  [["--template", "access"], "--last or --from: is required", 2],
  [["--template", "access", "--last", "1x"], "--last: must be a number of minutes", 2],
  [["--template", "access", "--from", "2026-01-02T00:00:00Z", "--to", "2026-01-02T00:00:00Z"], "--to: is not after", 2],
  [["--template", "all", "--last", "1d"], "Allowed choices are access, denials", 1],
])("%j is refused", async (options, problem, exitCode) => {
  await refused(run("ledger", "report", ...options, "--out", out), problem, exitCode);
  expect(existsSync(out)).toBe(false);
});

test("no file is overwritten, and none is left if the other cannot be written", async () => {
  writeFileSync(join(directory, "report.csv"), "mine");
  await refused(report("access", "--csv"), `${join(directory, "report.csv")} exists already\n`);
  expect([existsSync(out), readFileSync(join(directory, "report.csv"), "utf8")]).toEqual([false, "mine"]);
});
