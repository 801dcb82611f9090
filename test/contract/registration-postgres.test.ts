import { expect, test, vi } from "vitest";
import type { TenantId } from "../../src/base/ids.ts";
import { PostgresConnection } from "../../src/stores/postgres/connection/connection.ts";
import { forFile } from "../harness/lifetimes.ts";
import { sharedPostgres } from "../harness/shared-postgres.ts";
import { postgresFixture } from "./ledger-postgres-fixture.ts";
import { recordKit, tenant } from "./ledger-records.ts";
import { registrationSuite } from "./registration-suite.ts";

const server = await forFile(sharedPostgres());

registrationSuite("PostgreSQL", () => postgresFixture(server));

test.each([
  ["of one tenant", ["alice"], "AS asked (artifact)"],
  ["of many tenants in one transaction", ["alice", "bob", "carol"], "AS asked (tenant_id, artifact)"],
])("no answer of the server has more than a page of registrations, and one artifact's: %s", async (_, names, look) => {
  const fixture = await postgresFixture(server);
  const { clock, random, makeRecord } = recordKit();
  const tenants = names.map(tenant);
  const ledger = await fixture.open({ clock, random });
  const digests = Array.from(
    { length: 9 / names.length },
    (_, position) => `sha256:${`${position}`.padStart(64, "0")}`,
  );
  const register = (label: string) =>
    Promise.all(
      tenants.flatMap((of) =>
        digests.map((artifact_digest) => {
          const request = { artifact_digest, labels: [label], attributes: { padding: "x".repeat(400_000) } };
          return ledger.append(
            makeRecord(of, { kind: "registration", request, outcome: { accepted: true, citation: "none" } }),
          );
        }),
      ),
    );
  using query = vi.spyOn(PostgresConnection.prototype, "query");
  await register("a");
  await register("b");
  // Of each artifact more than is read, and of all of them more than a page has.
  for (const label of ["c", "d", "e", "f"]) await register(label);
  await register("g");
  const [of] = tenants as [TenantId];
  expect(await ledger.registrations(of, digests.slice(0, 2))).toEqual(["too_many", "too_many"]);
  await fixture.rebuild(of, { random });
  expect(await ledger.registrations(of, digests.slice(0, 2))).toEqual(["too_many", "too_many"]);
  const statements = query.mock.calls.map(([statement]) => statement);
  expect(statements).toContainEqual(expect.stringContaining(look));
  const sizes = query.mock.settledResults.map((result, at) =>
    result.type !== "fulfilled" || !statements[at]?.includes("registered")
      ? 0
      : result.value.rows
          .flatMap((row) => Object.values(row))
          .reduce((sum: number, value) => sum + (value instanceof Uint8Array ? value.length : 0), 0),
  );
  // A page of 4 MiB, and the artifact that makes it full, of which 2 MiB are read at most.
  const largest = Math.max(...sizes);
  expect(largest).toBeGreaterThan(4_000_000);
  expect(largest).toBeLessThan(6 * 1024 * 1024);
});
