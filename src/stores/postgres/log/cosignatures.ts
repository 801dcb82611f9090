/** Cosignatures of witnesses: for each log the newest of each. */
import type { TenantId } from "../../../base/ids.ts";
import type { StoredCosignature } from "../../../ledger/ports/store.ts";
import type { Queries, Statement } from "../connection/connection.ts";
import type { ConnectionPool } from "../connection/pool.ts";

const columns = "tenant_id, witness, key_id, size, root, line";
const all: Statement = {
  name: "cosignatures",
  text: `SELECT ${columns} FROM cosignatures ORDER BY tenant_id, witness, key_id`,
};
/** Another replica may have kept a newer one. */
const keep: Statement = {
  name: "keep_cosignature",
  text: `INSERT INTO cosignatures (${columns}) VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (tenant_id, witness, key_id) DO UPDATE
            SET size = excluded.size, root = excluded.root, line = excluded.line
          WHERE excluded.size >= cosignatures.size`,
};

export async function readCosignatures(queries: Queries): Promise<readonly StoredCosignature[]> {
  return (await queries.query(all, [])).rows.map((row) => ({
    tenantId: row.tenant_id as TenantId,
    witness: row.witness as string,
    keyId: row.key_id as string,
    size: row.size as number,
    root: row.root as Uint8Array,
    line: row.line as string,
  }));
}

/** One by one: each is durable on its own, and no two tenants share a transaction. */
export async function storeCosignatures(
  pool: ConnectionPool,
  cosignatures: readonly StoredCosignature[],
): Promise<void> {
  for (const { tenantId, witness, keyId, size, root, line } of cosignatures)
    await pool.retrying(() => pool.write(keep, [tenantId, witness, keyId, size, root, line]));
}
