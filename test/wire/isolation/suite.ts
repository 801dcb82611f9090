/** What one tenant sees of another: for every RPC and every stored thing, on one store. A new table fails here until it has a row. */
import { describe, expect, test } from "vitest";
import { forFile } from "../../harness/lifetimes.ts";
import type { testStores } from "../../harness/stores.ts";
import { factRows } from "./facts.ts";
import { logRows } from "./logs.ts";
import { noTenantIds } from "./names.ts";
import { policyRows } from "./policies.ts";
import { recordRows } from "./records.ts";
import { rpcChecks } from "./rpcs.ts";
import { sessionRows } from "./sessions.ts";
import { bearer, reasonOf, type wireNames, worldForFile } from "./world.ts";

const rows = [...recordRows, ...factRows, ...logRows, ...sessionRows, ...policyRows];

/** Tables that hold nothing of any tenant, and why. */
const tablesOfNoTenant: Readonly<Record<string, string>> = {
  store_changes: "counts the transactions of the whole store",
  store: "the identity of the store, and whether it can write",
  signing_keys: "public keys of the deployment",
  schema_migrations: "the version of the schema",
  store_copy: "whether the store is being copied",
};

/** A row makes up to some hundred calls. */
const patient = { timeout: 60_000 };

/** Asks everything of callers on these protocols against one kind of store. */
export function isolationSuite(
  [storeName, startStore]: (typeof testStores)[number],
  wires: readonly (typeof wireNames)[number][],
): void {
  describe(storeName, async () => {
    const world = await worldForFile(await forFile(startStore()));

    test("every table has a row", async () => {
      const known = [...rows.flatMap(({ tables }) => tables), ...Object.keys(tablesOfNoTenant)];
      const tables = await world.store.tables();
      expect(tables).toContain("entries");
      expect(tables.filter((table) => !known.includes(table))).toEqual([]);
    });

    describe.each(wires)("%s", (name) => {
      const wire = world.wire(name);

      test.each(Object.entries(rpcChecks))("%s", patient, (_rpc, check) => check(world, wire));

      test.each(rows)("$thing belongs to its tenant", patient, ({ check }) => check(world, wire));

      test.each(noTenantIds)("a token for %j is for no tenant", async (tenant) => {
        const outcome = await wire.call("/v1/sdk/whoami", undefined, bearer(world.token(tenant)));
        expect(reasonOf(outcome)).toBe("invalid_token");
      });
    });
  });
}
