/**
 * A caller of one tenant sees, cites, repeats or collides with nothing of another's: for every RPC and every stored
 * thing, on every store, over REST and gRPC. A new RPC or table fails here until it has a row.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { testStores } from "../harness/stores.ts";
import { factRows } from "./isolation/facts.ts";
import { logRows } from "./isolation/logs.ts";
import { noTenantIds } from "./isolation/names.ts";
import { policyRows } from "./isolation/policies.ts";
import { proofRows } from "./isolation/proofs.ts";
import { recordRows } from "./isolation/records.ts";
import { declaredRpcs, rpcChecks } from "./isolation/rpcs.ts";
import { sessionRows } from "./isolation/sessions.ts";
import { bearer, reasonOf, startWorld, type Wire, type World, wireNames } from "./isolation/world.ts";

const rows = [...recordRows, ...factRows, ...logRows, ...sessionRows, ...proofRows, ...policyRows];

/** Tables that hold nothing of any tenant, and why. */
const tablesOfNobody: Readonly<Record<string, string>> = {
  store_changes: "counts the transactions of the whole store",
  store: "the identity of the store, and whether it can write",
  signing_keys: "public keys of the deployment",
  schema_migrations: "the version of the schema",
};

/** A row makes up to some hundred calls. */
const patient = { timeout: 60_000 };

test("every RPC has a row", () => {
  expect(Object.keys(rpcChecks).sort()).toEqual(declaredRpcs().toSorted());
});

describe.each(testStores)("%s", (_name, startStore) => {
  let world: World;
  beforeAll(async () => {
    world = await startWorld(await startStore());
  }, 60_000);
  afterAll(async () => {
    await world?.stop();
    await world?.store.stop();
  });

  test("every table has a row", async () => {
    const known = [...rows.flatMap(({ tables }) => tables), ...Object.keys(tablesOfNobody)];
    const tables = await world.store.tables();
    expect(tables).toContain("entries");
    expect(tables.filter((table) => !known.includes(table))).toEqual([]);
  });

  describe.each(wireNames)("%s", (name) => {
    let wire: Wire;
    beforeAll(() => {
      wire = world.wire(name);
    });

    test.each(Object.entries(rpcChecks))("%s", patient, (_rpc, check) => check(world, wire));

    test.each(rows)("$thing is its tenant's own", patient, ({ check }) => check(world, wire));

    test.each(noTenantIds)("a token for %j is for no tenant", async (tenant) => {
      const outcome = await wire.call("/v1/sdk/whoami", undefined, bearer(world.token(tenant)));
      expect(reasonOf(outcome)).toBe("invalid_token");
    });
  });
});
