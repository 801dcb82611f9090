/** Commands that read change nothing, in whatever state they find the store; what came back is erased by a step of its own. */
import { mkdtempSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { storeIn } from "../../contract/ledger-records.ts";
import {
  directory,
  eachWithStore,
  erasing,
  execute,
  hashes,
  refused,
  removeDatabase,
  run,
  served,
} from "./surroundings.ts";

eachWithStore();

/** What a service does between two starts. */
const serve = (count: number) => served(Array<string>(count).fill("alice"));

const inAnchor = (sql: string) => execute(sql, storeIn(directory).anchorPath);
const noted = (recordId: string) => inAnchor(`INSERT INTO erased_records VALUES ('alice', '${recordId}')`);

/** Every command that only reads, with a record's id. Those that write files write them into a new directory. */
const reads = (id: string): readonly (readonly string[])[] => {
  const out = mkdtempSync(join(directory, "out-"));
  const tenant = ["--tenant", "alice"];
  return [
    ["ledger", "verify"],
    ["ledger", "export", ...tenant, "--out", join(out, "log")],
    ["ledger", "search", ...tenant, "--records"],
    ["ledger", "search", ...tenant, "--record", id],
    ["ledger", "pack", ...tenant, "--principal", "principal-1", "--out", join(out, "pack")],
    ["ledger", "pack", ...tenant, "--from", "2020-01-01T00:00:00Z", "--out", join(out, "range")],
    ["ledger", "hold", "list"],
    ["ledger", "erase", ...tenant, "--record", id, "--dry-run"],
    ["ledger", "reapply-erasures", "--dry-run"],
    ["ledger", "anchor", "adopt"],
    ["keys", "show", "--retired"],
    ["policy", "replay", "policies/sample", ...tenant, "--decision", id],
  ];
};

/** States of a store in which something might tempt a reader. Each gives the id of a record to ask for. */
const states: Readonly<Record<string, () => Promise<string>>> = {
  "as it should be": async () => (await serve(3))[1]?.recordId ?? "",
  "with an opening that a backup brought back": async () => {
    const [, one] = await serve(3);
    execute("CREATE TABLE kept AS SELECT * FROM openings");
    await run("ledger", "erase", "--tenant", "alice", "--record", one?.recordId ?? "", ...erasing);
    execute("INSERT OR REPLACE INTO openings SELECT * FROM kept; DROP TABLE kept");
    return one?.recordId ?? "";
  },
  "whose anchor notes what its log does not": async () => {
    const [, one] = await serve(3);
    noted(one?.recordId ?? "");
    return one?.recordId ?? "";
  },
  "whose anchor is behind it": async () => {
    const [one] = await serve(1);
    const [{ size, root }] = inAnchor("SELECT size, hex(root) AS root FROM anchored_logs") as [Record<string, unknown>];
    await serve(3);
    inAnchor(`UPDATE anchored_logs SET size = ${size}, root = x'${root}'`);
    return one?.recordId ?? "";
  },
  "whose anchor is another's": async () => {
    const [, one] = await serve(3);
    noted(one?.recordId ?? "");
    inAnchor("UPDATE anchored_store SET store_id = 'another'");
    return one?.recordId ?? "";
  },
  "without an anchor": async () => {
    const [, one] = await serve(3);
    removeDatabase(storeIn(directory).anchorPath);
    return one?.recordId ?? "";
  },
};

describe.each(Object.entries(states))("on a store %s", (_, prepare) => {
  test("no reading command changes a byte", async () => {
    const id = await prepare();
    const before = hashes();
    for (const command of reads(id)) {
      await run(...command);
      expect(hashes(), command.join(" ")).toEqual(before);
    }
  });
});

test("an export and a pack are signed up to the anchor's tree", async () => {
  await states["whose anchor is behind it"]?.();
  for (const [command, ...options] of [
    ["export", "--out", join(directory, "log")],
    ["pack", "--principal", "principal-1", "--out", join(directory, "pack")],
    ["pack", "--from", "2020-01-01T00:00:00Z", "--out", join(directory, "range")],
  ] as const) {
    const { out } = await run("ledger", command, "--tenant", "alice", ...options, "--json");
    expect(JSON.parse(out)).toMatchObject({ ok: true, tree_size: 2 });
  }
  const vkey = readFileSync(join(directory, "log", "vkey"), "utf8").trim();
  for (const file of ["pack", "range"])
    expect(await run("ledger", "pack", "verify", join(directory, file), "--key", vkey)).toMatchObject({ code: 0 });
});

describe("ledger reapply-erasures", () => {
  const reapply = (...options: string[]) => run("ledger", "reapply-erasures", ...options);

  test("erases again what a backup restored, once confirmed, and reads it as erased before", async () => {
    const id = (await states["with an opening that a backup brought back"]?.()) ?? "";
    const search = () => run("ledger", "search", "--tenant", "alice", "--record", id, "--records");
    expect((await search()).out).toContain("ERASED");
    const came = /^tenant alice: openings or kept answers of 1 erased record are in the store again/;
    expect(await run("ledger", "verify")).toMatchObject({
      code: 1,
      out: expect.stringContaining("5 leaves, 1 erased"),
      err: expect.stringMatching(came),
    });
    expect(await reapply("--dry-run")).toMatchObject({ code: 0, out: expect.stringMatching(came) });
    await refused(reapply(...erasing.slice(0, -1)), "--yes was not given");
    expect(await reapply(...erasing)).toEqual({
      code: 0,
      err: "",
      out: `${id} of tenant alice: leaf 2 erased again; leaf 4 says so\n`,
    });
    expect(await reapply(...erasing)).toMatchObject({ code: 0, out: "no erased record came back\n" });
    await refused(reapply("--tenant", "bob", ...erasing), "tenant bob has no log\n");
    expect(await run("ledger", "verify")).toMatchObject({ code: 0 });
  });

  test("erases the others if one is held, and fails for the rest", async () => {
    const [, one, other] = await serve(3);
    const [held, free] = [one?.recordId ?? "", other?.recordId ?? ""];
    for (const id of [held, free]) noted(id);
    await run("ledger", "hold", "place", "--tenant", "alice", "--record", held, "--reason", "case 12");
    const { code, out, err } = await reapply(...erasing);
    expect({ code, out }).toEqual({ code: 1, out: `${free} of tenant alice: leaf 3 erased again; leaf 4 says so\n` });
    expect(err).toMatch(new RegExp(`^${held} of tenant alice: leaf 2 is left as it is: legal hold on `));
  });
});
