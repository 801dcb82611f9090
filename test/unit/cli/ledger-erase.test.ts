/** Commands that erase and hold records, on a store that a service has written. */
import { describe, expect, test } from "vitest";
import { runCommandLine } from "../../../src/cli/run.ts";
import { maxErasedAtOnce } from "../../../src/ledger/ports/records-administration.ts";
import { openSqliteArchive } from "../../../src/stores/sqlite/backend.ts";
import { storeIn } from "../../contract/ledger-records.ts";
import {
  directory,
  eachWithStore,
  erasing,
  execute,
  makeRecord,
  openLedger,
  refused,
  run as runCommand,
  served,
} from "./surroundings.ts";
import { captureTerminal } from "./terminal.ts";

const nobodys = "018f0000-0000-7000-8000-000000000000";
const many = Array.from({ length: maxErasedAtOnce + 1 }, (_, i) => nobodys.slice(0, -3) + String(i).padStart(3, "0"));
const time = String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`;
eachWithStore();

/** What a service does between two starts: appends so many records of alice, and gives their ids. */
async function serve(count: number): Promise<string[]> {
  return (await served(Array<string>(count).fill("alice"))).map(({ recordId }) => recordId);
}

const run = (...commandLine: readonly (string | undefined)[]) => runCommand(...commandLine.map((word) => word ?? ""));

const eraseAs = (...options: readonly (string | undefined)[]) =>
  run("ledger", "erase", "--tenant", "alice", ...options);
const erase = (...options: readonly (string | undefined)[]) => eraseAs(...erasing, ...options);

const hold = (...options: readonly (string | undefined)[]) => run("ledger", "hold", ...options);

describe("ledger erase", () => {
  test("reports itself on standard error once, without the reason", async () => {
    const [a] = await serve(1);
    const { terminal, logged } = captureTerminal();
    const words = ["ledger", "erase", "--tenant", "alice", "--record", a ?? "", "--reason", "request 7"];
    for (const _ of [1, 2]) await runCommandLine([...words, "--operator", "olga", "--yes"], terminal);
    expect(logged.map((line) => JSON.parse(line))).toEqual([
      {
        ...{ level: "warn", time: expect.any(String), category: "security", event: "records_erased" },
        ...{ tenant_id: "alice", operator: "olga", records: 1, message: "records were erased" },
      },
    ]);
  });

  test("erases one record or several, with the time, and repeats it for erased ones", async () => {
    const [a, b, c] = await serve(3);
    const first = await eraseAs("--record", a, "--reason", "request 7", "--operator", "olga", "--yes");
    expect(first).toEqual({
      code: 0,
      err: "",
      out: expect.stringMatching(new RegExp(`^${a}: leaf 1 erased by leaf 4 at ${time}\n$`)),
    });
    const again = await erase("--record", b, c, "--record", a, "--record", a);
    expect(again.code).toBe(0);
    const [, , earlier, ...others] = again.out.trim().split("\n");
    expect(earlier).toBe(first.out.trim().replace("erased by", "was erased already, by"));
    expect(others).toEqual([]);
    expect(await run("ledger", "verify")).toMatchObject({
      code: 0,
      out: expect.stringContaining("7 leaves, 3 erased,"),
    });
  });

  test("--json has the same content", async () => {
    const [a] = await serve(1);
    const answer = JSON.parse((await erase("--record", a, "--json")).out);
    const erased_at = expect.stringMatching(new RegExp(`^${time}$`));
    const erased = [{ record_id: a, leaf_index: 1, erasure_leaf_index: 2, erased_at, was_erased: false }];
    expect(answer).toEqual({ ok: true, erased, overwritten: true });
    expect(JSON.parse((await erase("--record", nobodys, "--json")).out)).toEqual({
      ok: false,
      refused: [{ record_id: nobodys, why: "unknown" }],
      problems: [`${nobodys}: the tenant has no such record`, "nothing was erased"],
    });
  });

  test.each([
    ["a tenant", ["--tenant", "not a tenant", "--record", nobodys], "--tenant: is not a tenant id\n"],
    ["a record", ["--tenant", "alice", "--record", "x"], '--record: "x" is not a record id\n'],
    ["a reason", ["--tenant", "alice", "--record", nobodys, "--reason", " "], "--reason: must be 1 to 1024 characters"],
    ["an operator's name", ["--tenant", "alice", "--record", nobodys, "--operator", "\u0000"], "--operator: must be 1"],
    ["a reason that fits", ["--tenant", "alice", "--record", nobodys, "--reason", "x".repeat(1_025)], "--reason: must"],
    ["no more than one transaction takes", ["--tenant", "alice", "--record", ...many], "--record: 256 at most\n"],
    ["one record at least", ["--tenant", "alice"], "either --record <id...> says what to erase, or what the records"],
    ["more than a time", ["--tenant", "alice", "--from", "2020-01-01T00:00:00Z"], "besides a time"],
    ["one way of saying it", ["--tenant", "alice", "--record", nobodys, "--label", "x"], "either --record"],
    ["a resource that can be", ["--tenant", "alice", "--resource", ""], "--resource: must be 1 to 2048 characters"],
  ])("needs %s", async (_, options, problem) => {
    await serve(1);
    const code = problem.startsWith("--resource") ? 2 : 1;
    expect(await run("ledger", "erase", ...options)).toMatchObject({ code, err: expect.stringContaining(problem) });
  });

  test("--dry-run shows what would be done, and needs no statement", async () => {
    const [a, b] = await serve(2);
    await erase("--record", b);
    expect(await eraseAs("--record", a, b, "--dry-run")).toEqual({
      code: 0,
      err: "",
      out: expect.stringMatching(
        new RegExp(
          `^${a}: leaf 1, decision, would be erased\n${b}: leaf 2 was erased already, by leaf 3 at ${time}\n$`,
        ),
      ),
    });
    expect(JSON.parse((await eraseAs("--record", a, "--dry-run", "--json")).out)).toEqual({
      ok: true,
      dry_run: true,
      would_erase: [{ record_id: a, leaf_index: 1, kind: "decision" }],
      erased: [],
    });
    expect((await run("ledger", "verify")).out).toContain("4 leaves, 1 erased,");
  });

  test("reports that the bytes remain while a reader has an older state open", async () => {
    const [a] = await serve(1);
    const reader = openSqliteArchive(storeIn(directory));
    await reader.logs();
    const { code, err, out } = await erase("--record", a);
    await reader.close();
    expect({ code, err }).toEqual({ code: 1, err: expect.stringMatching(/write-ahead log.*run this again/) });
    expect(out).toContain("erased by leaf 2");
    expect((await erase("--record", a)).code).toBe(0);
  });
});

describe("ledger erase with filters", () => {
  /** A person's records among others. Gives the ids of theirs. */
  async function servePersons(count: number): Promise<string[]> {
    const ledger = await openLedger();
    const about = (id: string) => ({
      request: {
        operation: "protect",
        resource: { kind: "person", id },
        labels: ["health"],
        attributes: { ward: "b" },
      },
    });
    const append = (id: string) => ledger.append(makeRecord("alice", about(id)));
    await append("person-8");
    const ids = await Promise.all(Array.from({ length: count }, async () => (await append("person-7")).recordId));
    await ledger.close();
    return ids;
  }

  test("finds a person's records, and erases all of them", async () => {
    const ids = await servePersons(3);
    for (const asked of [
      ["--resource", "person-7"],
      ["--attribute", "ward=b", "--resource", "person-7"],
    ]) {
      const { code, out } = await eraseAs(...asked, "--dry-run", "--json");
      expect([code, JSON.parse(out).would_erase.map(({ record_id }: { record_id: string }) => record_id)]).toEqual([
        0,
        ids,
      ]);
    }
    expect((await erase("--resource", "person-7")).out.trim().split("\n")).toHaveLength(3);
    await refused(erase("--resource", "person-7"), "nothing is found that may be erased\n");
    const left = await run("ledger", "search", "--tenant", "alice", "--label", "health", "--outcome", "allow");
    expect(left.out.trim().split("\n")).toHaveLength(2);
    expect(await run("ledger", "search", "--tenant", "alice", "--resource", "person-7")).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^0 of \d+ records match; principals here: /),
    });
  });

  test("says that several records have the beginning of an id, and not that there is nothing", async () => {
    const [one = ""] = await serve(3);
    const prefix = one.slice(0, 8);
    await refused(erase("--decision", prefix), `several records have an id that begins with ${prefix}\n`);
  });

  test("reports what is erased, and that not all are, if the store fails at a later transaction", async () => {
    const last = (await servePersons(maxErasedAtOnce + 3)).at(-1);
    execute(`CREATE TRIGGER fault BEFORE DELETE ON openings WHEN OLD.record_id = '${last}'
      BEGIN SELECT RAISE(ABORT, 'disk I/O error'); END`);
    const { terminal, written, logged } = captureTerminal();
    const words = ["ledger", "erase", "--tenant", "alice", "--resource", "person-7", "--json"];
    await runCommandLine([...words, ...erasing], terminal);
    const { ok, erased, problems } = JSON.parse(written.out);
    expect([written.code, ok, erased.length]).toEqual([1, false, maxErasedAtOnce]);
    expect(problems.at(-1)).toBe("not all that were found are erased: give the command again");
    expect(logged.map((line) => JSON.parse(line))).toMatchObject([{ event: "records_erased", records: erased.length }]);
    execute("DROP TRIGGER fault");
    expect(JSON.parse((await erase("--resource", "person-7", "--json")).out).erased).toHaveLength(3);
    expect(await run("ledger", "verify")).toMatchObject({ code: 0 });
  });

  test("erases none if one is held, and leaves kinds that are never erased", async () => {
    const [one] = await servePersons(2);
    await hold("place", "--tenant", "alice", "--record", one, "--reason", "case 12");
    await refused(erase("--resource", "person-7"), /nothing was erased/);
    await hold("release", "--tenant", "alice", "--record", one, ...erasing);
    // The genesis record is of the first call, too.
    const { code, out } = await erase("--request", "request-1");
    expect([code, out]).toEqual([0, expect.stringContaining("a record of kind genesis is never erased")]);
    expect((await run("ledger", "verify")).out).toContain("8 leaves, 3 erased");
  });
});

describe("ledger hold", () => {
  test("forbids erasure until it is released", async () => {
    const [a, b] = await serve(2);
    const text = (what: string) => new RegExp(`^legal hold on ${what} since ${time}: case 12\n$`);
    expect(await hold("list")).toMatchObject({ code: 0, out: "there are no holds\n" });
    const placed = await hold("place", "--tenant", "alice", "--record", a, "--reason", "case 12");
    expect(placed).toMatchObject({ code: 0, out: expect.stringMatching(text(`record ${a} of tenant alice`)) });
    expect(await erase("--record", b, a)).toEqual({ code: 1, out: "", err: `${a}: ${placed.out}nothing was erased\n` });
    const all = await hold("place", "--tenant", "alice", "--reason", "case 12");
    expect(all).toMatchObject({ code: 0, out: expect.stringMatching(text("all of tenant alice")) });
    expect(await hold("list")).toMatchObject({ code: 0, out: all.out + placed.out });
    await served(["bob"]);
    expect(await hold("list", "--tenant", "bob")).toMatchObject({ code: 0, out: "there are no holds\n" });
    await refused(hold("list", "--tenant", "carol"), "tenant carol has no log\n");
    expect(await hold("release", "--tenant", "alice", ...erasing)).toMatchObject({
      code: 0,
      out: `released: ${all.out}`,
    });
    await refused(hold("release", "--tenant", "alice", ...erasing), "there is no such hold\n");
    expect((await hold("release", "--tenant", "alice", "--record", a, ...erasing)).code).toBe(0);
    expect((await erase("--record", b, a)).code).toBe(0);
  });

  test("--json has the same content", async () => {
    const [a] = await serve(1);
    const one = { tenant_id: "alice", record_id: a, reason: "case 13", placed_at: expect.stringMatching(time) };
    const json = async (...options: readonly (string | undefined)[]) =>
      JSON.parse((await hold(...options, "--json")).out);
    const target = ["--tenant", "alice", "--record", a];
    expect(await json("place", ...target, "--reason", "case 13")).toEqual({ ok: true, hold: one });
    expect(await json("list")).toEqual({ ok: true, holds: [one] });
    expect(await json("release", ...target, ...erasing)).toEqual({ ok: true, released: one });
    expect(await json("list")).toEqual({ ok: true, holds: [] });
  });

  test("is not placed twice with two reasons, or on an unknown record", async () => {
    const [a, b] = await serve(2);
    const place = (record: string | undefined, reason: string) =>
      hold("place", "--tenant", "alice", "--record", record, "--reason", reason);
    const { out } = await place(a, "case 14");
    expect(await place(a, "case 14")).toEqual({ code: 0, err: "", out });
    const other = "there is a hold already, for another reason; it stays as it is\n";
    expect(await place(a, "case 15")).toEqual({ code: 1, err: other, out });
    await erase("--record", b);
    await refused(place(b, "case 14"), "the record is erased: there is nothing to hold\n");
    await refused(place(nobodys, "case 14"), "the tenant has no such record\n");
    await refused(hold("place", "--tenant", "bob", "--reason", "x"), "tenant bob has no log\n");
  });
});
