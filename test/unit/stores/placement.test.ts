/** A table without a place would stay on the coordinator of a cluster, alone, unnoticed. */
import { expect, test } from "vitest";
import { migrations, placement } from "../../../src/stores/postgres/schema.ts";

test("every table of the schema has one place on a cluster, and tables of tenants are colocated", () => {
  const sql = migrations.map((migration) => migration.sql).join("\n");
  const tables = [...sql.matchAll(/CREATE TABLE (\w+) \((.*?)\n\s*\)(?: WITH .*?)?;/gs)].map(
    ([, name, columns = ""]) => ({
      name,
      ofTenant: /PRIMARY KEY \(tenant_id|tenant_id .* PRIMARY KEY/.test(columns),
    }),
  );
  const { byTenant, byKey, everywhere, onCoordinator } = placement;
  const others = [...Object.keys(byKey), ...everywhere, ...onCoordinator];
  expect([...byTenant, ...others].toSorted()).toEqual(
    ["schema_migrations", ...tables.map(({ name }) => name)].toSorted(),
  );
  expect(
    tables
      .filter(({ ofTenant }) => ofTenant)
      .map(({ name }) => name)
      .toSorted(),
  ).toEqual(byTenant.toSorted());
});
