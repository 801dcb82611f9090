/** `ledger search` and `ledger reindex`, on a store that a service has written, or is writing. */
import { createHash } from "node:crypto";
import { cpSync } from "node:fs";
import { userInfo } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { runCommandLine } from "../../../src/cli/run.ts";
import type { Appended } from "../../../src/ledger/ports/ledger.ts";
import type { NewRecord } from "../../../src/ledger/ports/record.ts";
import { manualClock, storeIn } from "../../contract/ledger-records.ts";
import {
  directory,
  eachWithStore,
  execute,
  fileOf,
  refused,
  removeDatabase,
  run as runCommand,
  servedTo,
} from "./surroundings.ts";
import { captureTerminal } from "./terminal.ts";

const clock = manualClock();
eachWithStore();

/** What a service records between two starts. */
const serve = (name: string, ...changes: readonly Partial<NewRecord>[]) =>
  servedTo(
    name,
    changes.map((change) => () => change),
    { clock },
  );

const run = (...commandLine: string[]) => runCommand("ledger", ...commandLine);

const aboutIt = { kind: "evidence" as const, request: { artifact_digest: "sha256:it", artifact_cid: "bafy" } };

test("search prints who did what with which result, and the records", async () => {
  const [decision, first, second] = await serve("alice", {}, aboutIt, aboutIt);
  const ask = async (...options: string[]) => (await run("search", "--tenant", "alice", ...options)).out;
  /** Ids in the last column, and what follows the rows. */
  const ids = async (...options: string[]) => {
    const [head, ...lines] = (await ask(...options)).trimEnd().split("\n");
    expect(head).toMatch(/^TIME +WHO +DID +WHAT +RESULT +WHY +EVIDENCED +RECORD$/);
    return lines.map((line) => (line.startsWith("more:") ? line : line.split(/ +/).at(-1)));
  };
  const [line] = (await ask("--decision", decision?.recordId ?? "")).split("\n").slice(1);
  expect(line?.split(/ {2,}/)).toEqual([
    decision?.recordedAt,
    "principal-1 (subject-1)",
    "decision protect",
    "allowed",
    "platform.allow",
    "no",
    decision?.recordId,
  ]);
  expect(await ids("--artifact-digest", "sha256:it")).toEqual([first?.recordId, second?.recordId]);
  expect(await ids("--newest", "--limit", "2")).toEqual([
    second?.recordId,
    first?.recordId,
    `more: --after ${first?.leafIndex}`,
  ]);
  const paged = ["--cid", "bafy", "--limit", "1"];
  expect(await ids(...paged)).toEqual([first?.recordId, `more: --after ${first?.leafIndex}`]);
  expect(await ids(...paged, "--after", String(first?.leafIndex))).toEqual([second?.recordId]);
  for (const id of [second?.recordId, second?.recordId.slice(0, 20)])
    expect(await ids("--record", id ?? "")).toEqual([second?.recordId]);
  expect(await ids("--principal", "principal-1", "--from", second?.recordedAt ?? "")).toEqual([second?.recordId]);
  const out = await ask("--to", second?.recordedAt ?? "", "--from", first?.recordedAt ?? "", "--records");
  const [, place, record] = out.trimEnd().split("\n");
  expect(place).toContain(first?.recordId);
  expect(JSON.parse(record ?? "")).toMatchObject({ record_id: first?.recordId, request: aboutIt.request });
});

test("an older copy of a store calls no evidence missing", async () => {
  const { path } = storeIn(directory);
  const [decision] = await serve("alice", {});
  cpSync(path, `${path}-old`);
  const event = { event_type: "protect", outcome: "completed", decision_id: decision?.recordId as string };
  await serve("alice", { kind: "evidence", request: event, outcome: { citation: "matched" } });
  const evidenced = async () => {
    const { out, err } = await run("search", "--json", "--record", decision?.recordId as string);
    return [JSON.parse(out).found[0].summary.evidence, err.includes("the store may lack records")];
  };
  expect(await evidenced()).toEqual(["evidenced", false]);
  removeDatabase(path);
  cpSync(`${path}-old`, path);
  expect(await evidenced()).toEqual(["not_shown", true]);
});

test("an empty result says what was searched", async () => {
  await serve("alice", {}, { caller: { principal_id: "reports" as never, subject: "r", auth_source: "bearer_token" } });
  for (const asked of [
    ["--subject", "nobody"],
    ["--subject", "nobody", "--count-by", "day"],
  ])
    expect((await run("search", ...asked)).out).toBe("0 of 3 records match; principals here: principal-1, reports\n");
});

test("search counts, and writes CSV that no spreadsheet executes", async () => {
  const formula = { kind: "customer", id: '=HYPERLINK("x"),1' };
  const [first] = await serve(
    "alice",
    { request: { operation: "access", resource: formula, artifact_digest: "x:1" } },
    {},
  );
  expect((await run("search", "--count-by", "principal")).out).toBe(
    "VALUE        RECORDS\nprincipal-1  3\n3 of 3 records match\n",
  );
  expect((await run("search", "--count-by", "resource", "--csv")).out).toBe(
    `value,records\n"'=HYPERLINK(""x""),1",1\n`,
  );
  const rows = (await run("search", "--record", first?.recordId ?? "", "--csv")).out.trimEnd().split("\n");
  expect(rows).toEqual([
    "time,who,did,resource,artifact,result,why,evidenced,record",
    `${first?.recordedAt},principal-1 (subject-1),decision access,"customer/=HYPERLINK(""x""),1",x:1,allowed,platform.allow,no,${first?.recordId}`,
  ]);
});

test("CSV that does not have all records says so on standard error", async () => {
  const [first, second] = await serve("alice", aboutIt, aboutIt);
  const ask = async (...options: string[]) => {
    const { out, err } = await run("search", "--cid", "bafy", "--csv", ...options);
    const [, ...rows] = out.trimEnd().split("\n");
    return [rows.map((row) => row.split(",").at(-1)), err];
  };
  expect(await ask("--limit", "1")).toEqual([[first?.recordId], `more: --after ${first?.leafIndex}\n`]);
  expect(await ask("--after", String(first?.leafIndex))).toEqual([[second?.recordId], ""]);
});

test("a denial that no policy decided says so, counts as that reason, and is found by it", async () => {
  const denied = { kind: "decision", outcome: { allow: false, reasons: [] } } as const;
  const [first] = await serve("alice", denied, denied);
  const { out } = await run("search", "--outcome", "deny", "--count-by", "reason");
  expect(out).toBe("VALUE                 RECORDS\nno policy permits it  2\n2 of 3 records match\n");
  const [, row] = (await run("search", "--record", first?.recordId ?? "", "--csv")).out.trimEnd().split("\n");
  expect(row).toContain(",denied,no policy permits it,,");
  const byReason = await run("search", "--decided-by", "no policy permits it", "--count-by", "day");
  expect(byReason.out).toContain("2 of 3 records match");
});

test("an event with the outcome denied is no denial of the policies", async () => {
  const claimed = { kind: "evidence", request: { event_type: "protect", outcome: "denied" }, outcome: {} } as const;
  const [event] = await serve("alice", claimed, { kind: "decision", outcome: { allow: false, reasons: ["x"] } });
  const { out } = await run("search", "--count-by", "reason");
  expect(out).toBe("VALUE  RECORDS\nx      1\n3 of 3 records match\n");
  const [, row] = (await run("search", "--record", event?.recordId ?? "", "--csv")).out.trimEnd().split("\n");
  expect(row).toContain(",denied,,,");
});

test("search finds records of a file, and of the last days", async () => {
  const file = fileOf("report.sealed", "it");
  const artifact_digest = `sha256:${createHash("sha256").update("it").digest("hex")}`;
  const [recorded] = await serve("alice", { kind: "evidence", request: { artifact_digest } }, aboutIt);
  const found = async (...options: string[]) => JSON.parse((await run("search", "--json", ...options)).out).found;
  expect(await found("--file", file)).toMatchObject([{ record_id: recorded?.recordId }]);
  expect(await run("search", "--file", join(directory, "none"))).toMatchObject({ code: 2, out: "" });
  onTestFinished(() => void vi.useRealTimers());
  vi.setSystemTime(clock.nowMs + 60_000);
  expect(await found("--last", "1h")).toHaveLength(3);
  vi.setSystemTime(clock.nowMs + 7_200_000);
  expect(await found("--last", "1h")).toEqual([]);
  expect(await found("--last", "7d")).toHaveLength(3);
});

test("search logs itself on standard error, without the values", async () => {
  await serve("alice", {});
  const { terminal, logged } = captureTerminal();
  await runCommandLine(["ledger", "search", "--label", "secret-label", "--newest"], terminal);
  expect(logged.map((line) => JSON.parse(line))).toMatchObject([
    {
      level: "info",
      category: "security",
      event: "ledger_searched",
      tenant_id: "alice",
      log: expect.stringMatching(/^[0-9a-f]{32}$/),
      operator: userInfo().username,
      fields: ["label", "newest"],
    },
  ]);
  expect(logged.join()).not.toContain("secret-label");
});

test("a store with one tenant needs no --tenant, and one with several lists them", async () => {
  await serve("alice", {});
  const given = await run("search", "--tenant", "alice");
  expect(await run("search")).toEqual(given);
  const pack = join(directory, "pack");
  expect(await run("pack", "--to", "2030-01-01T00:00:00Z", "--out", pack)).toMatchObject({ code: 0, err: "" });
  expect(await run("export", "--out", join(directory, "out"))).toMatchObject({ code: 0, err: "" });
  await serve("bob", {});
  const problem = "--tenant: is required: the store has logs of 2 tenants: alice, bob\n";
  expect(await run("search")).toEqual({ code: 1, out: "", err: problem });
  expect(await run("search", "--tenant", "alice")).toEqual(given);
});

test("search --json prints one object, which marks erased records", async () => {
  const [first, second] = await serve("alice", aboutIt, aboutIt);
  execute(`DELETE FROM openings WHERE record_id = '${first?.recordId}'`);
  const { out } = await run("search", "--tenant", "alice", "--json", "--records", "--after", "0", "--limit", "2");
  const place = (of: Appended | undefined, erased: boolean) => ({
    leaf_index: of?.leafIndex,
    record_id: of?.recordId,
    kind: "evidence",
    recorded_at: of?.recordedAt,
    erased,
  });
  const summary = expect.objectContaining({ principal: "principal-1", artifact_digest: "sha256:it" });
  expect(JSON.parse(out)).toEqual({
    ok: true,
    tenant_id: "alice",
    tree_size: 3,
    found: [place(first, true), { ...place(second, false), summary, record: expect.objectContaining(aboutIt) }],
  });
  expect((await run("search", "--tenant", "alice", "--record", first?.recordId ?? "")).out).toContain("ERASED");
});

test.each([
  [["--limit", "0"], "--limit: must be 1 to 1000\n"],
  [["--after", "x"], "--after: must be the index of a leaf\n"],
  [["--last", "1y"], "--last: must be a number of minutes, hours or days, such as 90m, 12h or 7d\n"],
  [["--from", "2026-01-01"], "--from: must be an RFC 3339 time, such as 2026-01-31T00:00:00Z\n"],
  [["--attribute", "region"], "--attribute: must be a key, = and a value, of 2048 characters together\n"],
  [["--attribute", "=eu"], "--attribute: must be a key, = and a value, of 2048 characters together\n"],
  [["--artifact-digest", ""], /^--artifact-digest: must be a digest, such as sha256:/],
  [["--artifact-digest", "9f86"], /^--artifact-digest: must be a digest/],
  [["--record", "1"], /^--record: must be a record id/],
  [["--on-behalf-of", "alice"], /^--on-behalf-of: must be a type, \/ and an id/],
  ...["denied", "Allow", "ALLOW", "permit", "error", ""].map((word): [string[], RegExp] => [
    ["--outcome", word],
    /^--outcome: must be one of allow, deny, accepted, completed, failed, aborted, refused, releasing, unknown\n$/,
  ]),
  ...["open", "Access", "rewrapKey", "deny"].map((word): [string[], RegExp] => [
    ["--operation", word],
    /^--operation: must be one of protect, access, rewrap, wrap, unwrap\n$/,
  ]),
])("search with %j is refused with exit code 2, and lists what exists", async (options, problem) => {
  const err = typeof problem === "string" ? problem : expect.stringMatching(problem);
  for (const command of [["search"], ["erase", "--dry-run"]]) {
    if (command[0] === "erase" && /limit|after|record|from|last/.test(options[0] ?? "")) continue;
    expect(await run(...command, "--tenant", "alice", ...options)).toEqual({ code: 2, out: "", err });
  }
});

test("records of one artifact are found by every spelling of its digest", async () => {
  const hex = createHash("sha256").update("it").digest("hex");
  const base64 = Buffer.from(hex, "hex").toString("base64url");
  const [recorded] = await serve(
    "alice",
    { kind: "evidence", request: { artifact_digest: `sha-256:${hex}` } },
    aboutIt,
  );
  for (const text of [hex.toUpperCase(), `SHA256:${hex}`, `sha2-256:${base64}`, `${hex} *report.pdf\n`]) {
    const { out } = await run("search", "--tenant", "alice", "--json", "--artifact-digest", text);
    expect([text, JSON.parse(out).found]).toMatchObject([text, [{ record_id: recorded?.recordId }]]);
  }
});

test("search of a tenant without a log says so", async () => {
  await serve("alice", {});
  await refused(run("search", "--tenant", "carol"), "tenant carol has no log\n");
  await refused(run("search", "--tenant", ".."), "--tenant: is not a tenant id\n");
});

test("reindex builds a lost index, and reports records that cannot be found again", async () => {
  const [first, second] = await serve("alice", aboutIt, aboutIt);
  await serve("bob", {});
  execute("DELETE FROM search_keys; DELETE FROM search_segments");
  const { out, code } = await run("reindex");
  expect(code).toBe(0);
  expect(out).toMatch(
    /^\S+ \(tenant alice\): 3 leaves indexed, 0 of them erased\n\S+ \(tenant bob\): 2 leaves indexed.*\n$/,
  );
  expect((await run("search", "--tenant", "alice", "--cid", "bafy")).out.split("\n")).toHaveLength(4);
  execute(`DELETE FROM openings WHERE record_id = '${first?.recordId}'`);
  execute(`UPDATE entries SET sealed = zeroblob(99) WHERE record_id = '${second?.recordId}'`);
  expect(await run("reindex", "--tenant", "alice")).toMatchObject({
    code: 1,
    out: expect.stringContaining("3 leaves indexed, 1 of them erased"),
    err: expect.stringContaining("leaf 2 cannot be opened"),
  });
  await refused(run("reindex", "--tenant", "carol"), "tenant carol has no log\n");
});
