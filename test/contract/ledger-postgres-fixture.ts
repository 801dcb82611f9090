/** Databases of one server: each fixture has one of its own, and a key file. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type PostgresTarget, parsePostgresUrl } from "../../src/base/postgres-url.ts";
import { openPostgresArchive, openPostgresDatabase } from "../../src/stores/postgres/backend.ts";
import { openPostgresStores, type PostgresLedgerOptions } from "../../src/stores/postgres/open-ledger.ts";
import { migratePostgres } from "../../src/stores/postgres/schema/schema.ts";
import type { Purpose } from "../../src/stores/sql/backend.ts";
import type { PostgresServer } from "../harness/postgres.ts";
import { seededRandom } from "./ledger-records.ts";
import { fixtureOver } from "./store-fixture.ts";
import { openPostgresAdministration } from "./upkeep.ts";

type OpenOptions = Pick<PostgresLedgerOptions, "clock" | "random"> & Partial<PostgresLedgerOptions>;
type Machine = Pick<PostgresLedgerOptions, "clock" | "random">;

export type PostgresFixture = Awaited<ReturnType<typeof postgresFixture>>;

/** Makes a migrated database. `distributed`: of a Citus cluster's coordinator, whose tables are spread over its nodes. */
export async function postgresFixture(
  server: Pick<PostgresServer, "createDatabase" | "query">,
  { distributed = false }: { readonly distributed?: boolean } = {},
) {
  const directory = mkdtempSync(join(tmpdir(), "ledger-"));
  const keyPath = join(directory, "ledger.key");
  const url = await server.createDatabase();
  const target = targetOf(url);
  const place = { target, anchorPath: undefined };
  await migratePostgres({ target, random: seededRandom(url), distributed });
  const fixture = fixtureOver({
    kind: "PostgreSQL" as const,
    keyPath,
    query: (sql: string): Promise<Record<string, unknown>[]> => server.query(sql, url),
    blob: (hex: string) => `'\\x${hex}'::bytea`,
    openStores: (options: OpenOptions) =>
      openPostgresStores({ target, keyPath, originPrefix: "ledger.example/logs", poolSize: 4, ...options }),
    archive: () => openPostgresArchive(place),
    database: (purpose?: Purpose) => openPostgresDatabase(place, purpose),
    administration: (machine: Machine) => openPostgresAdministration({ ...place, ...machine }),
    async remove() {
      rmSync(directory, { recursive: true, force: true });
    },
  });
  return { ...fixture, url, target };
}

export function targetOf(url: string): PostgresTarget {
  const target = parsePostgresUrl(url);
  if ("problem" in target) throw new Error(`The URL ${target.problem}.`);
  return target;
}
