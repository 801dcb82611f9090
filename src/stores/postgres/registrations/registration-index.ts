/** The index of registrations: writes it, in transactions under the lock of a log's head, and reads it. */
import { LRUCache } from "lru-cache";
import type { TenantId } from "../../../base/ids.ts";
import type { Sequenced } from "../../../ledger/append/sequence.ts";
import {
  byArtifact,
  encodedRegistrations,
  indexChange,
  leavesPerCatchUp,
  registrationMark,
  storedArtifact,
} from "../../../ledger/artifacts/registration-index.ts";
import type { Registration } from "../../../ledger/artifacts/registrations.ts";
import type { EncodedRecord } from "../../../ledger/record/record.ts";
import {
  foundByName,
  hexOf,
  knownRegistration,
  maxRows,
  type RegistrationsLook,
  readRegistrations,
  toRegistrationRow,
} from "../../found-registrations.ts";
import type { Queries, Statement } from "../connection/connection.ts";
import type { ConnectionPool } from "../connection/pool.ts";
import { lockHead, type StoredHead } from "../log/log-rows.ts";
import { visibleOpening } from "../log/log-statements.ts";

const keyOf: Statement = { name: "artifact_key", text: "SELECT key FROM artifact_keys WHERE tenant_id = $1" };
const insertKey: Statement = {
  name: "insert_artifact_key",
  text: "INSERT INTO artifact_keys (tenant_id, key) VALUES ($1, $2)",
};
/** Of each artifact no more than say all that can be known. */
const reliedOnRows = `
  SELECT asked.artifact, own.*
    FROM unnest($2::bytea[]) AS asked (artifact)
    CROSS JOIN LATERAL (
      SELECT entries.leaf_index, record_id, leaf, sealed, ${visibleOpening}
        JOIN registered_artifacts registered
          ON registered.tenant_id = entries.tenant_id AND registered.leaf_index = entries.leaf_index
       WHERE entries.tenant_id = $1 AND registered.tenant_id = $1
         AND registered.artifact = asked.artifact AND registered.relied_on = 1
       ORDER BY registered.leaf_index LIMIT ${maxRows}) own`;
const reliedOn: Statement = { name: "registrations", text: reliedOnRows };
/** One statement is one snapshot, on whichever node the tenant's rows are. */
const lookAt: Statement = {
  name: "look_at_registrations",
  text: `SELECT size, registered_to, key, found.*
           FROM log_heads
           LEFT JOIN artifact_keys ON artifact_keys.tenant_id = $1
           LEFT JOIN LATERAL (${reliedOnRows}) found ON true
          WHERE log_heads.tenant_id = $1`,
};
const behind: Statement = {
  name: "registrations_behind",
  text: `SELECT entries.leaf_index, record_id, leaf, sealed, ${visibleOpening}
          WHERE tenant_id = $1 AND entries.leaf_index >= $2 AND entries.leaf_index < $3
            AND position($4::bytea IN leaf) > 0
          ORDER BY entries.leaf_index`,
};
const addRows: Statement = {
  name: "add_registrations",
  text: `INSERT INTO registered_artifacts (tenant_id, artifact, relied_on, leaf_index)
         SELECT head.tenant_id, row.*
           FROM log_heads head, unnest($2::bytea[], $3::integer[], $4::bigint[]) AS row
          WHERE head.tenant_id = $1`,
};
const supersede: Statement = {
  name: "supersede_registrations",
  text: `UPDATE registered_artifacts SET relied_on = 0
          WHERE tenant_id = $1 AND relied_on = 1
            AND (artifact, leaf_index) IN (SELECT * FROM unnest($2::bytea[], $3::bigint[]))`,
};
/** Of what was erased nothing but its row says which artifact it was of. */
const clear: Statement = {
  name: "clear_registrations",
  text: `DELETE FROM registered_artifacts registered
          WHERE tenant_id = $1 AND NOT EXISTS
            (SELECT FROM erasures WHERE erasures.tenant_id = $1 AND erasures.leaf_index = registered.leaf_index)`,
};
const moveTo: Statement = {
  name: "move_registered_to",
  text: "UPDATE log_heads SET registered_to = $2 WHERE tenant_id = $1",
};

/** Keys that are remembered, one a tenant. About 200 bytes each. */
const maxKeys = 16_384;

export class RegistrationIndex {
  /** Keys that were committed. They change only where somebody lost them: what is read with one says whether it holds. */
  readonly #keys = new LRUCache<TenantId, Uint8Array>({ max: maxKeys });

  /** Rejects with `DamagedError` where what is found does not verify. */
  async look(queries: Queries, tenantId: TenantId, names: readonly string[]): Promise<RegistrationsLook> {
    const key = this.#keys.get(tenantId);
    const artifacts = key === undefined ? [] : names.map((name) => storedArtifact(key, name));
    const { rows } = await queries.query(lookAt, [tenantId, artifacts]);
    const stored = (rows[0]?.key ?? undefined) as Uint8Array | undefined;
    if (!isSame(stored, key)) {
      if (stored === undefined) this.#keys.delete(tenantId);
      else this.#keys.set(tenantId, stored);
      return this.look(queries, tenantId, names);
    }
    const found = rows.filter(({ leaf_index }) => leaf_index !== null).map(toRegistrationRow);
    const [head] = rows;
    return {
      size: (head?.size ?? 0) as number,
      indexedTo: (head?.registered_to ?? 0) as number,
      found: key === undefined ? names.map(() => []) : foundByName(key, names, found),
    };
  }

  /** Adds what a batch registers to an index that has all that stands before it. */
  add(
    queries: Queries,
    tenantId: TenantId,
    records: readonly EncodedRecord[],
    { firstLeafIndex, artifactKey }: Sequenced,
  ): Promise<void> {
    return this.#index(queries, tenantId, encodedRegistrations(records, firstLeafIndex), artifactKey);
  }

  /**
   * Catches up with some of what the index has not got yet, and then says what an append does to it: where the index ends
   * then, and what is to be written beside the records: nothing of the batch where more is missing than one append makes
   * up for.
   */
  async follow(
    queries: Queries,
    head: StoredHead,
    records: readonly EncodedRecord[],
    sequenced: Sequenced,
  ): Promise<{ readonly registeredTo: number; readonly write: () => Promise<void> }> {
    const leaves = Math.max(leavesPerCatchUp, 2 * records.length);
    const caughtUpTo = await this.#catchUp(queries, head, sequenced.artifactKey, leaves);
    if (caughtUpTo < head.size) return { registeredTo: caughtUpTo, write: async () => {} };
    return {
      registeredTo: sequenced.head.size,
      write: () => this.add(queries, head.tenantId, records, sequenced),
    };
  }

  /**
   * Looks, in a transaction of its own, at some of the leaves that the index has not got yet. Resolves with whether it has
   * all of them then.
   * @param freshKey for a log that has none yet
   */
  catchUpSome(pool: ConnectionPool, tenantId: TenantId, freshKey: Uint8Array): Promise<boolean> {
    const work = async (connection: Queries) => {
      const head = await lockHead(connection, tenantId);
      if (head === undefined || head.registeredTo === head.size) return true;
      const registeredTo = await this.#catchUp(connection, head, freshKey, leavesPerCatchUp);
      await connection.query(moveTo, [tenantId, registeredTo]);
      return registeredTo === head.size;
    };
    return pool.retrying(() => pool.transaction(work), tenantId);
  }

  /** Begins anew: every leaf is to be looked at again. What is asked meanwhile waits for that, or helps. */
  clear(pool: ConnectionPool, tenantId: TenantId): Promise<void> {
    const work = async (connection: Queries) => {
      await lockHead(connection, tenantId);
      await Promise.all([connection.query(clear, [tenantId]), connection.query(moveTo, [tenantId, 0])]);
    };
    return pool.retrying(() => pool.transaction(work), tenantId);
  }

  /** Looks at all of them, under the lock of the head. Resolves with the head as it is then. */
  async catchUpAll(queries: Queries, head: StoredHead, freshKey: Uint8Array): Promise<StoredHead> {
    if (head.registeredTo === head.size) return head;
    const registeredTo = await this.#catchUp(queries, head, freshKey, head.size);
    await queries.query(moveTo, [head.tenantId, registeredTo]);
    return { ...head, registeredTo };
  }

  /** Looks at so many leaves at most. Resolves with how far it has come, which the caller notes. */
  async #catchUp(
    queries: Queries,
    { tenantId, size, registeredTo }: StoredHead,
    freshKey: Uint8Array,
    leaves: number,
  ): Promise<number> {
    const end = Math.min(size, registeredTo + leaves);
    if (end === registeredTo) return end;
    const { rows } = await queries.query(behind, [tenantId, registeredTo, end, registrationMark]);
    const registrations = rows.flatMap((row) => readRegistrations(toRegistrationRow(row)) ?? []);
    await this.#index(queries, tenantId, registrations, freshKey);
    return end;
  }

  /** @param freshKey for a log that has none yet */
  async #index(
    queries: Queries,
    tenantId: TenantId,
    registrations: readonly ReadonlyMap<string, Registration>[],
    freshKey: Uint8Array,
  ): Promise<void> {
    if (registrations.every(({ size }) => size === 0)) return;
    const known = await readKey(queries, tenantId);
    if (known === undefined) await queries.query(insertKey, [tenantId, freshKey]);
    const key = known ?? freshKey;
    const byHash = byArtifact(key, registrations);
    const { rows } = await queries.query(reliedOn, [tenantId, byHash.map(({ artifact }) => artifact)]);
    const rowsByHash = Map.groupBy(rows.map(toRegistrationRow), ({ artifact }) => hexOf(artifact));
    const changes = byHash.map(({ artifact, fresh }) => {
      const relied = rowsByHash.get(hexOf(artifact)) ?? [];
      return {
        artifact,
        ...indexChange(
          relied.map((row) => knownRegistration(key, row)),
          fresh,
        ),
      };
    });
    const added = changes.flatMap(({ artifact, added }) => added.map((row) => ({ artifact, ...row })));
    const superseded = changes.flatMap(({ artifact, superseded }) =>
      superseded.map((leafIndex) => ({ artifact, leafIndex })),
    );
    await Promise.all([
      ...(superseded.length === 0 ? [] : [queries.query(supersede, [tenantId, ...columns(superseded)])]),
      ...(added.length === 0 ? [] : [queries.query(addRows, [tenantId, ...addedColumns(added)])]),
    ]);
  }
}

function isSame(one: Uint8Array | undefined, other: Uint8Array | undefined): boolean {
  return one === undefined || other === undefined ? one === other : Buffer.compare(one, other) === 0;
}

async function readKey(queries: Queries, tenantId: TenantId): Promise<Uint8Array | undefined> {
  return (await queries.query(keyOf, [tenantId])).rows[0]?.key as Uint8Array | undefined;
}

function columns(rows: readonly { readonly artifact: Uint8Array; readonly leafIndex: number }[]) {
  return [rows.map(({ artifact }) => artifact), rows.map(({ leafIndex }) => leafIndex)] as const;
}

function addedColumns(
  rows: readonly { readonly artifact: Uint8Array; readonly leafIndex: number; readonly isReliedOn: boolean }[],
) {
  const [artifacts, leaves] = columns(rows);
  return [artifacts, rows.map(({ isReliedOn }) => (isReliedOn ? 1 : 0)), leaves];
}
