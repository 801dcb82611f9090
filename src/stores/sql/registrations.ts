/** The index of registrations: writes it, in transactions under the lock of a log's head, and reads it. */
import type { RecordId, TenantId } from "../../base/ids.ts";
import {
  byArtifact,
  type FreshRegistrations,
  indexChange,
  pageBytes,
  registrationMark,
  storedArtifact,
} from "../../ledger/artifacts/registration-index.ts";
import {
  maxReliedOn,
  maxReliedOnBytes,
  type Registration,
  registrationsOf,
} from "../../ledger/artifacts/registrations.ts";
import type { ArtifactRegistrations } from "../../ledger/ports/registrations.ts";
import { DamagedError } from "../files/errors.ts";
import { visibleOpening } from "./log-rows.ts";
import {
  onRows,
  onTenants,
  type Queries,
  queryRows,
  type TenantRow,
  type TenantStatement,
  type Transaction,
  toRow,
  type Value,
} from "./queries.ts";
import { tables } from "./schema.ts";
import { openStoredRecord } from "./stored-record.ts";

/** Bound of the rows that are read of one artifact. */
const maxRows = maxReliedOn + 1;

const bytes = "octet_length(leaf) + octet_length(sealed)";

/**
 * Rows of artifacts that are relied on, per artifact no more than are needed (`is_cut`: the row is too large). Erased
 * records stay erased, even if a backup restored them.
 * @param asked the artifacts, with their tenants if these are many
 * @param tenant of the artifacts
 */
const reliedOn = (asked: string, tenant: string) => `
  SELECT ranked.*, sum(${bytes}) OVER (PARTITION BY tenant_id, artifact) > ${maxReliedOnBytes} AS is_cut
    FROM (SELECT entries.tenant_id, registered.artifact, entries.leaf_index, entries.record_id, leaf, sealed,
                 CASE WHEN erasure_leaf_index IS NULL THEN opening END AS opening,
                 row_number() OVER (PARTITION BY entries.tenant_id, registered.artifact
                                    ORDER BY registered.leaf_index) AS place
            FROM ${asked}
            JOIN registered_artifacts registered
              ON registered.tenant_id = ${tenant} AND registered.artifact = asked.artifact AND registered.relied_on = 1
            JOIN entries ON entries.tenant_id = ${tenant} AND entries.leaf_index = registered.leaf_index
            LEFT JOIN openings ON openings.tenant_id = entries.tenant_id AND openings.record_id = entries.record_id
            LEFT JOIN erasures ON erasures.tenant_id = entries.tenant_id AND erasures.record_id = entries.record_id)
         AS ranked
   WHERE place <= ${maxRows}`;
/** Rows of whole artifacts, up to a page. Marks artifacts of later pages (`is_later`); the first is never marked. */
const reliedPage = onRows(
  { artifact: "bytea" },
  (asked, tenant) => `
    SELECT tenant_id AS "tenantId", artifact, leaf_index AS "leafIndex", record_id AS "recordId", opening,
           is_cut AS "isCut", is_later AS "isLater",
           CASE WHEN is_cut OR is_later THEN NULL ELSE leaf END AS leaf,
           CASE WHEN is_cut OR is_later THEN NULL ELSE sealed END AS sealed
      FROM (SELECT sized.*, sum(bytes) OVER (ORDER BY tenant_id, artifact)
                            - sum(bytes) OVER (PARTITION BY tenant_id, artifact) >= ${pageBytes} AS is_later
              FROM (SELECT found.*, CASE WHEN is_cut THEN 0 ELSE ${bytes} END AS bytes
                      FROM (${reliedOn(asked, tenant)}) AS found) AS sized) AS paged
     ORDER BY tenant_id, artifact, leaf_index`,
);
const keysOf = onTenants((isOwn) => `SELECT tenant_id, key FROM artifact_keys WHERE ${isOwn}`);
const supersede: TenantStatement = {
  ofOne: `UPDATE registered_artifacts SET relied_on = 0 WHERE relied_on = 1 AND tenant_id = $1
       AND (artifact, leaf_index) IN (SELECT * FROM unnest($2::bytea[], $3::bigint[]))`,
  ofMany: `UPDATE registered_artifacts SET relied_on = 0 WHERE relied_on = 1
       AND (tenant_id, artifact, leaf_index) IN (SELECT * FROM unnest($1::text[], $2::bytea[], $3::bigint[]))`,
};
/** One page of registrations. */
const toIndex = `SELECT leaf_index AS "leafIndex", record_id AS "recordId", leaf, sealed, opening
    FROM (SELECT entries.leaf_index, record_id, leaf, sealed,
                 sum(${bytes}) OVER (ORDER BY entries.leaf_index) AS up_to, ${visibleOpening}
           WHERE tenant_id = $1 AND entries.leaf_index >= $2 AND entries.leaf_index < $3
             AND position($4::bytea IN leaf) > 0) AS registered
   WHERE up_to - octet_length(leaf) - octet_length(sealed) < ${pageBytes}
   ORDER BY leaf_index`;
/** Rows of erased records stay: nothing else names the artifact of the record. */
const clear = `DELETE FROM registered_artifacts AS registered
   WHERE tenant_id = $1 AND NOT EXISTS
     (SELECT 1 FROM erasures WHERE erasures.tenant_id = $1 AND erasures.leaf_index = registered.leaf_index)`;

/** Leaves whose registrations one statement finds. */
const leavesEach = 1_024;

/** Returns the key of a tenant's index; undefined before the first registration. */
export async function artifactKeyOf(queries: Queries, tenantId: TenantId): Promise<Uint8Array | undefined> {
  return (await queries.query(keysOf.ofOne, [tenantId])).rows[0]?.key as Uint8Array | undefined;
}

/**
 * Returns the registrations under names. Must be called in one snapshot. Rejects with `DamagedError` if a row does not
 * verify.
 * @param noted finds a row of an artifact that is not relied on, and whose erasure only the anchor notes
 */
export async function findRegistrations(
  queries: Queries,
  tenantId: TenantId,
  names: readonly string[],
  noted?: string,
): Promise<readonly ArtifactRegistrations[]> {
  const key = await artifactKeyOf(queries, tenantId);
  const find = async (name: string): Promise<ArtifactRegistrations> => {
    if (key === undefined) return [];
    const artifact = storedArtifact(key, name);
    const { rows } = await queryRows(queries, reliedPage, [[tenantId, artifact]]);
    const others = noted === undefined ? [] : (await queries.query(noted, [tenantId, artifact])).rows;
    return foundRegistrations(name, [...rows, ...others] as unknown as readonly RegistrationRow[]);
  };
  return Promise.all(names.map(find));
}

/**
 * Makes the index again from all leaves of the log, in a transaction under the lock of its head. Lookups see the old
 * index until the commit. Rejects with `DamagedError` if a registration does not open: its artifact is unknown.
 * @param freshKey for a log that has none yet
 */
export async function rebuildRegistrations(
  transaction: Transaction,
  tenantId: TenantId,
  size: number,
  freshKey: Uint8Array,
): Promise<void> {
  await transaction.query(clear, [tenantId]);
  for (let first = 0; first < size; ) {
    const end = Math.min(size, first + leavesEach);
    const { rows } = await transaction.query(toIndex, [tenantId, first, end, registrationMark]);
    const page = rows as unknown as readonly RegistrationRow[];
    await addRegistrations(transaction, [{ tenantId, registrations: page.map(openRegistrations), freshKey }]);
    const ofPage = page.reduce((sum, { leaf, sealed }) => sum + leaf.length + sealed.length, 0);
    first = ofPage < pageBytes ? end : (page.at(-1)?.leafIndex ?? end) + 1;
  }
}

/** Registrations of a tenant, to be indexed. */
export interface TenantRegistrations {
  readonly tenantId: TenantId;
  readonly registrations: readonly ReadonlyMap<string, Registration>[];
  /** For a log that has none yet. */
  readonly freshKey: Uint8Array;
}

/** Adds registrations to the indexes, under the locks of the heads. */
export async function addRegistrations(transaction: Transaction, all: readonly TenantRegistrations[]): Promise<void> {
  const registering = all.filter(({ registrations }) => registrations.some(({ size }) => size > 0));
  if (registering.length === 0) return;
  const tenants = registering.map(({ tenantId }) => toRow(tenantId));
  const { rows } = await queryRows(transaction, keysOf, tenants);
  const known = new Map(rows.map(({ tenant_id, key }) => [tenant_id as TenantId, key as Uint8Array]));
  const keyless = registering.filter(({ tenantId }) => !known.has(tenantId));
  await transaction.insert(
    tables.artifactKeys,
    keyless.map(({ tenantId, freshKey }) => [tenantId, freshKey]),
  );
  let pending: readonly Asked[] = registering.flatMap(({ tenantId, freshKey, registrations }) => {
    const key = known.get(tenantId) ?? freshKey;
    return byArtifact(key, registrations).map((one) => ({ tenantId, key, ...one }));
  });
  while (pending.length > 0) pending = await indexPage(transaction, pending);
}

type Asked = FreshRegistrations & { readonly tenantId: TenantId; readonly key: Uint8Array };

/** Indexes registrations of some of the artifacts. Resolves with the others. */
async function indexPage(transaction: Transaction, pending: readonly Asked[]): Promise<readonly Asked[]> {
  const { rows } = await queryRows(
    transaction,
    reliedPage,
    pending.map(({ tenantId, artifact }) => [tenantId, artifact]),
  );
  const known = Map.groupBy(rows as unknown as readonly PageRow[], nameOf);
  const later = pending.filter((one) => known.get(nameOf(one))?.some(({ isLater }) => isLater));
  const superseded: TenantRow[] = [];
  const added: (readonly Value[])[] = [];
  for (const { tenantId, key, artifact, fresh } of pending.filter((one) => !later.includes(one))) {
    const relied = known.get(nameOf({ tenantId, artifact })) ?? [];
    const change = indexChange(
      relied.map((row) => knownRegistration(key, row)),
      fresh,
    );
    for (const { leafIndex, isReliedOn } of change.added)
      added.push([tenantId, artifact, isReliedOn ? 1 : 0, leafIndex]);
    for (const leafIndex of change.superseded) superseded.push([tenantId, artifact, leafIndex]);
  }
  await Promise.all([
    superseded.length === 0 ? undefined : queryRows(transaction, supersede, superseded),
    transaction.insert(tables.registeredArtifacts, added),
  ]);
  return later;
}

function nameOf({ tenantId, artifact }: Pick<PageRow, "tenantId" | "artifact">): string {
  return `${Buffer.from(artifact).toString("hex")} ${tenantId}`;
}

/** A row of the index that is relied on, with its record. */
interface RegistrationRow {
  readonly artifact: Uint8Array;
  readonly leafIndex: number;
  readonly recordId: RecordId;
  readonly leaf: Uint8Array;
  readonly sealed: Uint8Array;
  /** Null if the record was erased. */
  readonly opening: Uint8Array | null;
  /** Whether leaf and record were left out because they are too large. A boolean of the database. */
  readonly isCut?: unknown;
}

/** A row of a page. */
interface PageRow extends RegistrationRow {
  readonly tenantId: TenantId;
  /** Whether the row only marks an artifact whose rows another page has. A boolean of the database. */
  readonly isLater: unknown;
}

/**
 * Returns what the rows say of the artifact with this name.
 *
 * @param rows of this artifact, in the order of the log, at most `maxRows`
 * @throws DamagedError if a record does not verify, or is of another artifact
 */
function foundRegistrations(name: string, rows: readonly RegistrationRow[]): ArtifactRegistrations {
  if (rows.some(({ isCut }) => isCut)) return "too_many";
  if (rows.some(({ opening }) => opening === null)) return "erased";
  if (rows.length > maxReliedOn) return "too_many";
  return rows.map(({ recordId, leafIndex, leaf, sealed, opening }) => {
    const record = openStoredRecord(`record ${recordId}`, leaf, sealed, opening as Uint8Array);
    if (!registrationsOf(leafIndex, record).has(name))
      throw new DamagedError(`The index has record ${recordId} under an artifact that it does not register.`);
    return { recordId, leafIndex, record };
  });
}

/**
 * Reads the registration of a row. Unreadable if it was erased, does not open, or is too large: then nothing can be
 * known of the artifact.
 * @param key of the tenant's index
 */
function knownRegistration(key: Uint8Array, row: RegistrationRow): Registration | "unreadable" {
  if (row.isCut) return "unreadable";
  try {
    for (const [name, registration] of openRegistrations(row))
      if (Buffer.compare(storedArtifact(key, name), row.artifact) === 0) return registration;
  } catch (error) {
    if (!(error instanceof DamagedError)) throw error;
  }
  return "unreadable";
}

/** Opens the registrations of a row's record; none if it was erased. Throws `DamagedError` if it does not open. */
function openRegistrations(row: RegistrationRow): ReadonlyMap<string, Registration> {
  const { leafIndex, leaf, sealed, opening } = row;
  if (opening === null) return new Map();
  return registrationsOf(leafIndex, openStoredRecord(`leaf ${leafIndex}`, leaf, sealed, opening));
}
