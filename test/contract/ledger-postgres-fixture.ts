/** Databases of one server: each fixture has one of its own, and a key file. */
import { join } from "node:path";
import { Client } from "pg";
import { onTestFinished } from "vitest";
import { type PostgresTarget, parsePostgresUrl } from "../../src/base/postgres-url.ts";
import { openPostgresArchive, openPostgresDatabase } from "../../src/stores/postgres/backend.ts";
import { openPostgresStores, type PostgresLedgerOptions } from "../../src/stores/postgres/open-ledger.ts";
import { migratePostgres } from "../../src/stores/postgres/schema.ts";
import type { Purpose } from "../../src/stores/sql/backend.ts";
import { folderForTest } from "../harness/folder.ts";
import type { PostgresServer } from "../harness/postgres.ts";
import { seededRandom } from "./ledger-records.ts";
import { fixtureOver } from "./store-fixture.ts";

type OpenOptions = Pick<PostgresLedgerOptions, "clock" | "random"> & Partial<PostgresLedgerOptions>;

export type PostgresFixture = Awaited<ReturnType<typeof postgresFixture>>;

/**
 * Makes a migrated database, and a key file that goes with the test.
 * @param options `distributed`: of a Citus cluster's coordinator, whose tables are spread over its nodes
 */
export async function postgresFixture(
  server: Pick<PostgresServer, "createDatabase" | "query">,
  { distributed = false }: { readonly distributed?: boolean } = {},
) {
  const keyPath = join(folderForTest("ledger"), "ledger.key");
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
  });
  /** A session of its own, which ends with the test. */
  const connect = async (user = "postgres"): Promise<Client> => {
    const client = new Client({ ...target, user });
    onTestFinished(() => client.end());
    await client.connect();
    return client;
  };
  /** Locks heads of logs, in a transaction that lasts as long as the session. */
  const holdHeads = async (tenantIds: string): Promise<Client> => {
    const client = await connect();
    await client.query("BEGIN");
    await client.query("SELECT FROM log_heads WHERE tenant_id LIKE $1 FOR UPDATE", [tenantIds]);
    return client;
  };
  return { ...fixture, url, target, connect, holdHeads };
}

export function targetOf(url: string): PostgresTarget {
  const target = parsePostgresUrl(url);
  if ("problem" in target) throw new Error(`The URL ${target.problem}.`);
  return target;
}
