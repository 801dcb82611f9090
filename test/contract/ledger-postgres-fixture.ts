/** Databases of one server, for the ledger's contract: each place has one of its own, and a key file. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type PostgresTarget, parsePostgresUrl } from "../../src/base/postgres-url.ts";
import { formatVerifierKey, parseVerifierKey } from "../../src/ledger/tlog/note-keys.ts";
import { readKeyFile } from "../../src/stores/files/key-file.ts";
import { openPostgresStores, type PostgresLedgerOptions } from "../../src/stores/postgres/open-ledger.ts";
import { migratePostgres } from "../../src/stores/postgres/schema/migrate.ts";
import type { PostgresServer } from "../harness/postgres.ts";
import { seededRandom } from "./ledger-records.ts";
import type { LedgerFixture } from "./ledger-suite.ts";

type OpenOptions = Pick<PostgresLedgerOptions, "clock" | "random"> & Partial<PostgresLedgerOptions>;

export interface PostgresFixture extends LedgerFixture {
  readonly url: string;
  readonly keyPath: string;
  readonly target: PostgresTarget;
  open(options: OpenOptions): Promise<Awaited<ReturnType<typeof openPostgresStores>>["ledger"]>;
  openStores(options: OpenOptions): ReturnType<typeof openPostgresStores>;
  /** Runs a query on a connection of its own. */
  query(sql: string): Promise<Record<string, unknown>[]>;
}

export interface PostgresFixtureOptions {
  /** Whether the server is a Citus cluster's coordinator, and the tables are spread over its nodes. */
  readonly distributed?: boolean;
}

/** Makes a place with a migrated database. */
export async function postgresFixture(
  server: Pick<PostgresServer, "createDatabase" | "query">,
  { distributed = false }: PostgresFixtureOptions = {},
): Promise<PostgresFixture> {
  const directory = mkdtempSync(join(tmpdir(), "ledger-"));
  const keyPath = join(directory, "ledger.key");
  const url = await server.createDatabase();
  const target = targetOf(url);
  await migratePostgres({ target, random: seededRandom(url), distributed });
  const query: PostgresFixture["query"] = (sql) => server.query(sql, url);
  const openStores: PostgresFixture["openStores"] = (options) =>
    openPostgresStores({ target, keyPath, originPrefix: "ledger.example/logs", poolSize: 4, ...options });
  return {
    url,
    keyPath,
    target,
    query,
    openStores,
    open: async (options) => (await openStores(options)).ledger,
    async rows(tenantId) {
      const rows = await query(
        `SELECT leaf_index, record_id, leaf FROM entries WHERE tenant_id = ${literal(tenantId)} ORDER BY leaf_index`,
      );
      return rows.map((row) => ({
        leafIndex: Number(row.leaf_index),
        recordId: row.record_id as string,
        leaf: (row.leaf as Buffer).toString("utf8"),
      }));
    },
    async verifier(origin) {
      const [key] = readKeyFile(keyPath) ?? [];
      const verifier = key && parseVerifierKey(formatVerifierKey(origin, key.publicKey));
      if (verifier === undefined) throw new Error("There is no key.");
      return verifier;
    },
    async deleteOpening(tenantId, recordId) {
      await query(`DELETE FROM openings WHERE tenant_id = ${literal(tenantId)} AND record_id = ${literal(recordId)}`);
    },
    async damage(tenantId, recordId) {
      await query(
        `UPDATE entries SET sealed = set_byte(sealed, length(sealed) - 1, get_byte(sealed, length(sealed) - 1) # 1)
          WHERE tenant_id = ${literal(tenantId)} AND record_id = ${literal(recordId)}`,
      );
    },
    async damageTile(tenantId) {
      await query(
        `UPDATE tiles SET hashes = set_byte(hashes, 0, get_byte(hashes, 0) # 1)
          WHERE tenant_id = ${literal(tenantId)} AND level = 0 AND tile_index = 0`,
      );
    },
    async remove() {
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

export function targetOf(url: string): PostgresTarget {
  const target = parsePostgresUrl(url);
  if ("problem" in target) throw new Error(`The URL ${target.problem}.`);
  return target;
}

function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
