import { expect, test } from "vitest";
import { erasedOf, statement } from "./erasure-suite.ts";
import { recordKit, tenant } from "./ledger-records.ts";
import { sqliteFixture } from "./ledger-sqlite-fixture.ts";
import { registrationSuite } from "./registration-suite.ts";

registrationSuite("SQLite", async () => sqliteFixture());

test.each([
  ["the one that is relied on", 1],
  ["one that another superseded", 2],
])("an erasure that the anchor notes holds for an older store: %s", async (_, position) => {
  const fixture = sqliteFixture();
  const { clock, random, makeRecord } = recordKit();
  const alice = tenant("alice");
  const digest = `sha256:${"ab".repeat(32)}`;
  const register = async () => {
    const request = { artifact_digest: digest, labels: [] };
    const outcome = { accepted: true, citation: "none" };
    return (await ledger.append(makeRecord(alice, { kind: "registration", request, outcome }))).recordId;
  };
  let ledger = await fixture.open({ clock, random });
  const ids = [await register(), await register(), await register()];
  await ledger.close();
  // What an operator does who puts an older copy of the store back, and accepts it.
  const erased = ids[position - 1];
  if (erased === undefined) throw new Error("There is no such registration.");
  fixture.queryAnchor("INSERT INTO erased_records VALUES (?, ?)", alice, erased);

  ledger = await fixture.open({ clock, random });
  expect(await ledger.registrations(alice, [digest])).toEqual(["erased"]);
  await fixture.rebuild(alice, { random });
  expect(await ledger.registrations(alice, [digest])).toEqual(["erased"]);
  await register();
  expect(await ledger.registrations(alice, [digest])).toEqual(["erased"]);
  await fixture.administering({ clock, random }, async (administration) => {
    const { reapplied } = await administration.reapplyErasures(undefined, statement);
    expect(reapplied).toMatchObject([{ recordId: erased }]);
    expect(erasedOf(await administration.erase(alice, [erased], statement))).toMatchObject([{ wasErased: true }]);
  });
  await ledger.close();
  ledger = await fixture.open({ clock, random });
  expect(await ledger.registrations(alice, [digest])).toEqual(["erased"]);
});
