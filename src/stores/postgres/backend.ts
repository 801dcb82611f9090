/** PostgreSQL, for the service and its commands. */
import { resolve } from "node:path";
import { Client } from "pg";
import type { PostgresTarget } from "../../base/postgres-url.ts";
import { openAnchorOf } from "../files/anchor.ts";
import { IncompatibleStoreError } from "../files/errors.ts";
import { archiveOver, type OperatorArchive } from "../sql/archive.ts";
import type { Purpose, StoreBackend, StoreDatabase, StoreSettings } from "../sql/backend.ts";
import { touch } from "../sql/log-tools.ts";
import { columnsOf, type Queries } from "../sql/queries.ts";
import { readCopyState, readStoreId, requireServable } from "../sql/store-checks.ts";
import { type ConnectionSettings, clientOptions, prepareConnection } from "./connection/client-options.ts";
import { insertionInto, queriesOf } from "./connection/connection.ts";
import { toError } from "./connection/errors.ts";
import { beginSnapshot, ConnectionPool } from "./connection/pool.ts";
import { openPostgresStores } from "./open-ledger.ts";
import { isDistributed, migratePostgres, migrations, requireSchema } from "./schema.ts";

export function postgresBackend(
  target: PostgresTarget,
  { storePasswordFile: passwordFile, anchor: anchorPath }: Pick<StoreSettings, "anchor" | "storePasswordFile">,
): StoreBackend {
  const settings = { target, passwordFile, anchorPath };
  return {
    openStores: ({ storePoolSize: poolSize, storeTimeoutMs: timeoutMs, ledgerKey, ledgerOrigin }, machine) =>
      openPostgresStores({
        ...{ ...settings, poolSize, timeoutMs, keyPath: ledgerKey, originPrefix: ledgerOrigin },
        ...machine,
      }),
    openArchive: () => openPostgresArchive(settings),
    openDatabase: (purpose) => openPostgresDatabase(settings, purpose),
    async migrate({ random, distributed }) {
      const applied = await migratePostgres({ target, passwordFile, random, distributed });
      return { version: migrations.length, applied };
    },
    async backUp() {
      throw new Error("PostgreSQL is backed up by its own means, pg_basebackup and its archive of write-ahead logs.");
    },
  };
}

const timeoutMs = 10_000;

const clockOfDatabase = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now_ms";

const databaseSize = "SELECT pg_database_size(current_database())::float8 AS size";

async function clockMs(queries: Queries): Promise<number> {
  return (await queries.query(clockOfDatabase, [])).rows[0]?.now_ms as number;
}

export interface PostgresPlace extends ConnectionSettings {
  /** Path of the anchor; undefined if there is none. */
  readonly anchorPath: string | undefined;
}

/**
 * Opens a snapshot of the store. Rejects with `IncompatibleStoreError` if its schema is not this program's, with an
 * error of the driver if it cannot be read.
 */
export async function openPostgresArchive(options: PostgresPlace): Promise<OperatorArchive> {
  // Without timeouts: a walk over all logs is slow.
  const client = new Client(clientOptions(options, 0));
  // The next query reports the failure.
  client.on("error", () => {});
  const withNow = async <Result>(look: (pool: ConnectionPool) => Promise<Result>): Promise<Result> => {
    const pool = new ConnectionPool({ ...options, poolSize: 1, timeoutMs });
    try {
      return await look(pool);
    } finally {
      await pool.close();
    }
  };
  try {
    await client.connect();
    await prepareConnection(client);
    const { query } = queriesOf(client);
    await requireSchema({ query });
    await client.query(beginSnapshot);
    // The first statement takes the snapshot, not the BEGIN.
    await client.query("SELECT");
    return archiveOver({
      anchorPath: options.anchorPath,
      isAnchored: true,
      query,
      notedErasures: () => [],
      withNewest: withNow,
      // Commits an update of the head that changes nothing; after that a standby has all that this snapshot saw.
      settle: (tenantId) => withNow((pool) => pool.transaction((connection) => touch(connection, [tenantId]))),
      clockMs: () => clockMs({ query }),
      toError,
      close: () => client.end(),
    });
  } catch (error) {
    await client.end();
    throw error;
  }
}

/** Bound of each wait of a copy. Long, because counting a large table is slow, and no gateway serves meanwhile. */
const copyTimeoutMs = 600_000;
/** Bound of a transaction of a command, which may index all registrations of a tenant. */
const workTimeoutMs = 600_000;

/**
 * Opens the database for a command. Rejects with `IncompatibleStoreError` for an unsuitable schema, for a store in a
 * copy if the command has no part in it, and for a distributed source, since Citus has no triggers; with an error of the
 * driver if it cannot be used.
 */
export async function openPostgresDatabase(
  options: PostgresPlace,
  purpose: Purpose = "upkeep",
): Promise<StoreDatabase> {
  const isUpkeep = purpose === "upkeep";
  const bounds = { poolSize: 2, timeoutMs: isUpkeep ? timeoutMs : copyTimeoutMs, workTimeoutMs };
  const pool = new ConnectionPool({ ...options, ...bounds });
  try {
    await requireSchema(pool);
    if (isUpkeep) requireServable(await readCopyState(pool), "The database");
    if (purpose === "source" && (await isDistributed(pool)))
      throw new IncompatibleStoreError("The database is distributed: it cannot be sealed, and so is not copied.");
  } catch (error) {
    await pool.close();
    throw error;
  }
  return {
    query: (statement, values) => pool.query(statement, values),
    transact: (work, key) => pool.retrying(() => pool.transaction(work), key),
    toError,
    close: () => pool.close(),
    name: "The database",
    anchorPath: options.anchorPath,
    // Each erasure has its leaf.
    notesErasures: false,
    async openAnchor() {
      const { anchorPath } = options;
      return anchorPath === undefined ? undefined : openAnchorOf(resolve(anchorPath), await readStoreId(pool));
    },
    openArchive: () => openPostgresArchive(options),
    clockMs: () => clockMs(pool),
    sizeBytes: async () => (await pool.query(databaseSize, [])).rows[0]?.size as number,
    insert: async (transaction, table, rows) =>
      void (await transaction.query(insertionInto(table).ofMany, columnsOf(rows))),
    sealing: {
      // First waits for appends, which begin with the lock of a head, so that none waits for a sealed table.
      seal: (tables) => [
        "LOCK TABLE log_heads IN EXCLUSIVE MODE",
        ...tables.map(
          (table) =>
            `CREATE OR REPLACE TRIGGER sealed BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON ${table}
               FOR EACH STATEMENT EXECUTE FUNCTION refuse_write()`,
        ),
      ],
      unseal: (tables) => tables.map((table) => `DROP TRIGGER IF EXISTS sealed ON ${table}`),
    },
    completion: [
      "INSERT INTO log_names (name, tenant_id) SELECT right(origin, 32), tenant_id FROM log_heads ON CONFLICT DO NOTHING",
    ],
    [Symbol.asyncDispose]: () => pool.close(),
  };
}
