/** Removes what nobody needs any more from the tables of every tenant, also of those that never come back. */
import { clockDifferenceMs, systemClock } from "../../base/clock.ts";
import { systemTimers } from "../../base/timers.ts";
import type { Compacted, CompactOptions } from "../backend.ts";
import { type ExpiringTable, expiringTables } from "../expiring-tables.ts";
import type { ConnectionSettings } from "./connection/client-options.ts";
import type { Statement } from "./connection/connection.ts";
import { toError } from "./connection/errors.ts";
import { ConnectionPool } from "./connection/pool.ts";
import { requireSchema } from "./schema/migrate.ts";

const timeoutMs = 10_000;
/** Rows of one transaction, of one tenant: what is held by others is left to them. */
const rowsEach = 1_000;

const databaseClock: Statement = {
  name: "compact_clock",
  text: "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now_ms",
};
const databaseSize: Statement = {
  name: "database_size",
  text: "SELECT pg_database_size(current_database())::float8 AS size",
};
const tenantsOf = ({ table, expiry }: ExpiringTable): Statement => ({
  name: `expired_tenants_${table}`,
  text: `SELECT DISTINCT tenant_id FROM ${table} WHERE ${expiry} < $1 ORDER BY tenant_id`,
});
const removalOf = ({ table, key, expiry }: ExpiringTable): Statement => {
  const [, own = ""] = key.split(", ");
  return {
    name: `compact_${table}`,
    text: `DELETE FROM ${table} WHERE tenant_id = $1 AND ${own} IN
             (SELECT ${own} FROM ${table} WHERE tenant_id = $1 AND ${expiry} < $2 LIMIT ${rowsEach}
                FOR UPDATE SKIP LOCKED)`,
  };
};

/** The space is used again when autovacuum has been there; the files do not shrink. Rejects with an error for the operator. */
export async function compactPostgres(
  settings: ConnectionSettings,
  { nowMs, pause, onProgress }: CompactOptions,
): Promise<Compacted> {
  const pool = new ConnectionPool({ ...settings, poolSize: 1, timeoutMs, clock: systemClock, timers: systemTimers });
  const size = async () => (await pool.query(databaseSize, [])).rows[0]?.size as number;
  try {
    await requireSchema(pool);
    const beforeBytes = await size();
    const theirMs = (await pool.query(databaseClock, [])).rows[0]?.now_ms as number;
    // Where this machine's clock is ahead, rows are not: what makes a proof or a repeated call known must stay.
    const expiredMs = Math.floor(Math.min(nowMs, theirMs)) - clockDifferenceMs;
    const removed: Record<string, number> = {};
    for (const table of expiringTables) {
      let count = 0;
      const before = expiredMs - table.keptForMs;
      for (const { tenant_id } of (await pool.query(tenantsOf(table), [before])).rows)
        for (let gone = rowsEach; gone === rowsEach; count += gone) {
          await pause();
          gone = (await pool.write(removalOf(table), [tenant_id as string, before])).count;
          onProgress(`${table.table}: ${count + gone} expired rows removed`);
        }
      removed[table.table] = count;
    }
    return { removed, beforeBytes, afterBytes: await size(), isLogEmpty: undefined };
  } catch (error) {
    throw toError(error);
  } finally {
    await pool.close();
  }
}
