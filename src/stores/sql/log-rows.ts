/** Heads and tiles of logs, for readers and writers. */
import type { TenantId } from "../../base/ids.ts";
import type { StoredCosignature, TimedLog } from "../../ledger/ports/store.ts";
import { type LogName, logNameOf } from "../../ledger/tlog/log-name.ts";
import { nodesOfTiles, proofTiles, type TileReader } from "../../ledger/tlog/tile-nodes.ts";
import type { TilePlace } from "../../ledger/tlog/tiles.ts";
import { Tree } from "../../ledger/tlog/tree.ts";
import { onRows, onTenants, type Queries, queryRows, toRow } from "./queries.ts";

/** A head with the columns that only the writer needs. */
export interface StoredHead extends TimedLog {
  /** Position of the key that signs the log, in the order of the store's keys. */
  readonly keyPosition: number;
}

/** Rows are `StoredHead`s. */
const selectHeads = `SELECT tenant_id AS "tenantId", origin, size, root, last_recorded_at_ms AS "lastRecordedAtMs",
         key_position AS "keyPosition" FROM log_heads`;
const tenantOfName = "SELECT tenant_id FROM log_names WHERE name = $1";
const headOf = `${selectHeads} WHERE tenant_id = $1`;
const allHeads = `${selectHeads} ORDER BY tenant_id`;
const locking = {
  /** In one order, so that two waiting transactions never deadlock. */
  wait: {
    ofOne: `${headOf} FOR UPDATE`,
    ofMany: `${selectHeads} WHERE tenant_id = ANY ($1::text[]) ORDER BY tenant_id FOR UPDATE`,
  },
  skip: onTenants((isOwn) => `${selectHeads} WHERE ${isOwn} FOR UPDATE SKIP LOCKED`),
};
const tilesOf = onRows(
  { level: "integer", tile_index: "bigint" },
  (asked, tenant) => `
    SELECT tiles.tenant_id, tiles.level, tiles.tile_index, hashes FROM ${asked}
      JOIN tiles ON tiles.tenant_id = ${tenant} AND tiles.level = asked.level AND tiles.tile_index = asked.tile_index`,
);

export async function headOfTenant(queries: Queries, tenantId: TenantId): Promise<StoredHead | undefined> {
  return (await queries.query(headOf, [tenantId])).rows[0] as StoredHead | undefined;
}

/** Locks the head until the transaction ends, and reads it. */
export async function lockHead(queries: Queries, tenantId: TenantId): Promise<StoredHead | undefined> {
  return (await lockHeads(queries, [tenantId], "wait")).get(tenantId);
}

/** Locks heads until the transaction ends, and reads them. Waits for locked ones, or skips them. */
export async function lockHeads(
  queries: Queries,
  tenants: readonly TenantId[],
  how: keyof typeof locking,
): Promise<ReadonlyMap<TenantId, StoredHead>> {
  const { rows } = await queryRows(queries, locking[how], tenants.map(toRow));
  return new Map((rows as unknown as readonly StoredHead[]).map((head) => [head.tenantId, head]));
}

/** Two statements, each on the rows of one key: the second stays on the tenant's node. */
export async function headByName(queries: Queries, name: LogName): Promise<StoredHead | undefined> {
  const [row] = (await queries.query(tenantOfName, [name])).rows;
  const head = row && (await headOfTenant(queries, row.tenant_id as TenantId));
  // The tenant of a name may have another log, if the log of this name was never opened.
  return head !== undefined && logNameOf(head.origin) === name ? head : undefined;
}

/** Every head, by tenant. */
export async function heads(queries: Queries): Promise<readonly StoredHead[]> {
  return (await queries.query(allHeads, [])).rows as unknown as readonly StoredHead[];
}

/** A tile of a tenant. */
export interface OwnTile extends TilePlace {
  readonly tenantId: TenantId;
}

/** Reads tiles; a missing tile is undefined to the tenant's reader. */
export async function readTilesOf(
  queries: Queries,
  asked: readonly OwnTile[],
): Promise<(tenantId: TenantId) => TileReader> {
  const places = asked.map(({ tenantId, level, index }) => [tenantId, level, index] as const);
  const { rows } = places.length === 0 ? { rows: [] } : await queryRows(queries, tilesOf, places);
  const hashes = new Map(
    rows.map((row) => [`${row.tenant_id} ${row.level}/${row.tile_index}`, row.hashes as Uint8Array]),
  );
  return (tenantId) => (level, index) => hashes.get(`${tenantId} ${level}/${index}`);
}

/** As `readTilesOf`, of one tenant. */
export async function readTiles(
  queries: Queries,
  tenantId: TenantId,
  tiles: readonly TilePlace[],
): Promise<TileReader> {
  const asked = tiles.map(({ level, index }) => ({ tenantId, level, index }));
  return (await readTilesOf(queries, asked))(tenantId);
}

/**
 * Reads the log at a size that it has reached: its root, and proofs of the given leaves. The tree's methods throw
 * `MissingTileError` if a tile is missing.
 */
export async function readTree(
  queries: Queries,
  tenantId: TenantId,
  size: number,
  leafIndices: readonly number[] = [],
): Promise<Tree> {
  return new Tree(size, nodesOfTiles(await readTiles(queries, tenantId, proofTiles(size, leafIndices))));
}

/** A row if one of the last leaves, all of the head's time, accepts it. */
const acceptedTime = `SELECT 1 FROM entries
   WHERE tenant_id = $1 AND position($2::bytea IN leaf) > 0 AND leaf_index > coalesce(
    (SELECT leaf_index FROM entries WHERE tenant_id = $1 AND position($3::bytea IN leaf) = 0
      ORDER BY leaf_index DESC LIMIT 1), -1) LIMIT 1`;

/** End of a column list, and the tables of entries. Hides openings of erased records that a backup restored. */
export const visibleOpening = openingIn("openings");

/** As `visibleOpening`, for the named table of openings. */
export function openingIn(table: string): string {
  return `CASE WHEN erasure_leaf_index IS NULL THEN opening END AS opening
           FROM entries
           LEFT JOIN ${table} USING (tenant_id, record_id)
           LEFT JOIN erasures USING (tenant_id, record_id)`;
}

/** Whether the log says that an operator accepted its newest time. */
export async function isTimeAccepted(queries: Queries, { tenantId, lastRecordedAtMs }: TimedLog): Promise<boolean> {
  // Text within a leaf has no unescaped quotation mark, so these match members only.
  const kind = Buffer.from('"kind":"clock_acceptance"');
  const time = Buffer.from(`"recorded_at":"${new Date(lastRecordedAtMs).toISOString()}"`);
  return (await queries.query(acceptedTime, [tenantId, kind, time])).rows.length > 0;
}

const allCosignatures = `SELECT tenant_id AS "tenantId", witness, key_id AS "keyId", size, root, line
    FROM cosignatures ORDER BY tenant_id, witness, key_id`;
/** Another replica may have kept a newer one. */
const keep = `INSERT INTO cosignatures (tenant_id, witness, key_id, size, root, line) VALUES ($1, $2, $3, $4, $5, $6)
  ON CONFLICT (tenant_id, witness, key_id) DO UPDATE
     SET size = excluded.size, root = excluded.root, line = excluded.line
   WHERE excluded.size >= cosignatures.size`;

/** Returns the newest cosignature of each witness, for each log. */
export async function readCosignatures(queries: Queries): Promise<readonly StoredCosignature[]> {
  return (await queries.query(allCosignatures, [])).rows as unknown as readonly StoredCosignature[];
}

/** Returns the statement that keeps a cosignature, and its values. */
export function keepingCosignature(cosignature: StoredCosignature): [string, readonly unknown[]] {
  const { tenantId, witness, keyId, size, root, line } = cosignature;
  return [keep, [tenantId, witness, keyId, size, root, line]];
}

/** Keeps a policy revision, unless it exists. */
export const keepRevision = "INSERT INTO policy_revisions (revision, content) VALUES ($1, $2) ON CONFLICT DO NOTHING";

const keysByPosition = "SELECT public_key FROM signing_keys ORDER BY position";

/** Returns the public keys that have signed the store's logs, in their order. */
export async function readPublicKeys(queries: Queries): Promise<readonly Uint8Array[]> {
  return (await queries.query(keysByPosition, [])).rows.map(({ public_key }) => public_key as Uint8Array);
}
