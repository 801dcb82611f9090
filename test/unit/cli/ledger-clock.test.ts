/** The way on for a store that was written to while the clock was ahead. */
import { expect, test } from "vitest";
import { manualClock } from "../../contract/ledger-records.ts";
import { eachWithStore, run, served } from "./surroundings.ts";

const statement = ["--reason", "the clock was 30 minutes ahead", "--operator", "olga"];
eachWithStore();

const accept = (...more: string[]) => run("ledger", "clock", "accept", ...more);

test("a service starts again on logs whose time an operator accepts, and they verify", async () => {
  await served(["carol"]);
  const ahead = manualClock(Date.now() + 1_800_000);
  await served(["alice", "bob"], ahead);
  await expect(served([])).rejects.toThrow("see `ledger clock accept`");
  expect((await run("ledger", "verify")).err).toContain("ahead of the clock");
  const { code, out } = await accept(...statement, "--yes", "--json");
  const accepted_time = new Date(ahead.nowMs).toISOString();
  const logs = ["alice", "bob"].map((tenant_id) => ({ tenant_id, origin: expect.any(String), accepted_time }));
  expect([code, JSON.parse(out)]).toEqual([0, { ok: true, logs }]);
  await served(["alice", "bob", "carol"]);
  expect(await run("ledger", "verify")).toMatchObject({ code: 0, err: "" });
  await served([]);
});

test("a dry run names logs and times, and the start stays refused", async () => {
  await served(["alice"], manualClock(Date.now() + 1_800_000));
  const { code, out } = await accept("--dry-run");
  expect([code, out]).toEqual([
    0,
    expect.stringMatching(/\(tenant alice\): newest record of .*Z\nThis machine's clock says .*: would be accepted/),
  ]);
  await expect(served([])).rejects.toThrow("set the clock right");
});

test("a store that is not ahead needs no acceptance", async () => {
  await served(["alice"], manualClock(Date.now() + 200_000));
  expect(await accept(...statement, "--yes")).toMatchObject({ code: 0, out: "no log has a time to accept\n" });
});
