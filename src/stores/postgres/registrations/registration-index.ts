/** The index of registrations: writes it, in transactions under the lock of a log's head, and reads it. */
import { LRUCache } from "lru-cache";
import type { TenantId } from "../../../base/ids.ts";
import type { Sequenced } from "../../../ledger/append/sequence.ts";
import {
  byArtifact,
  bytesPerCatchUp,
  encodedRegistrations,
  type FreshRegistrations,
  indexChange,
  leavesPerCatchUp,
  pageBytes,
  registrationMark,
  storedArtifact,
  unreadableName,
} from "../../../ledger/artifacts/registration-index.ts";
import type { EncodedRecord } from "../../../ledger/record/record.ts";
import {
  foundByName,
  hexOf,
  knownRegistration,
  type MissingRegistrations,
  missingRegistrations,
  namesToLookAt,
  type RegistrationsLook,
  rowBytes,
  toRegistrationRow,
} from "../../found-registrations.ts";
import type { Queries } from "../connection/connection.ts";
import type { ConnectionPool } from "../connection/pool.ts";
import { lockHead, type StoredHead } from "../log/log-rows.ts";
import {
  addRows,
  behind,
  clear,
  insertKey,
  isLater,
  keyOf,
  lookAt,
  moveTo,
  reliedOn,
  supersede,
} from "./registration-statements.ts";

/** Keys that are remembered, one a tenant. About 200 bytes each. */
const maxKeys = 16_384;

export class RegistrationIndex {
  /** Keys that were committed. They change only where somebody lost them: what is read with one says whether it holds. */
  readonly #keys = new LRUCache<TenantId, Uint8Array>({ max: maxKeys });

  /** Rejects with `DamagedError` where what is found does not verify. */
  async look(queries: Queries, tenantId: TenantId, names: readonly string[]): Promise<RegistrationsLook> {
    const key = this.#keys.get(tenantId);
    const artifacts = key === undefined ? [null] : namesToLookAt(names).map((name) => storedArtifact(key, name));
    const { rows } = await queries.query(lookAt(artifacts.length), [tenantId, ...artifacts]);
    const stored = (rows[0]?.key ?? undefined) as Uint8Array | undefined;
    if (!isSame(stored, key)) {
      if (stored === undefined) this.#keys.delete(tenantId);
      else this.#keys.set(tenantId, stored);
      return this.look(queries, tenantId, names);
    }
    const found = rows.filter(({ leaf_index }) => leaf_index !== null).map(toRegistrationRow);
    const byArtifact = Map.groupBy(found, ({ artifact }) => hexOf(artifact));
    const [head] = rows;
    return {
      size: (head?.size ?? 0) as number,
      indexedTo: (head?.registered_to ?? 0) as number,
      found: foundByName(names, (name) => (key && byArtifact.get(hexOf(storedArtifact(key, name)))) ?? []),
    };
  }

  /** Adds what a batch registers to an index that has all that stands before it. */
  add(
    queries: Queries,
    tenantId: TenantId,
    records: readonly EncodedRecord[],
    { firstLeafIndex, artifactKey }: Sequenced,
  ): Promise<void> {
    const registrations = encodedRegistrations(records, firstLeafIndex);
    return this.#index(queries, tenantId, { registrations, unreadable: [] }, artifactKey);
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
    const registeredTo = await this.#catchUp(queries, head, freshKey, head.size, Number.POSITIVE_INFINITY);
    await queries.query(moveTo, [head.tenantId, registeredTo]);
    return { ...head, registeredTo };
  }

  /** Looks at so many leaves at most, or bytes. Resolves with how far it has come, which the caller notes. */
  async #catchUp(
    queries: Queries,
    { tenantId, size, registeredTo }: StoredHead,
    freshKey: Uint8Array,
    leaves: number,
    bytes = bytesPerCatchUp,
  ): Promise<number> {
    const end = Math.min(size, registeredTo + leaves);
    let [first, ofAll] = [registeredTo, 0];
    while (first < end && ofAll < bytes) {
      const { rows } = await queries.query(behind, [tenantId, first, end, registrationMark]);
      const page = rows.map(toRegistrationRow);
      await this.#index(queries, tenantId, missingRegistrations(page), freshKey);
      const ofPage = page.reduce((sum, row) => sum + rowBytes(row), 0);
      first = ofPage < pageBytes ? end : (page.at(-1)?.leafIndex ?? end) + 1;
      ofAll += ofPage;
    }
    return first;
  }

  /** @param freshKey for a log that has none yet */
  async #index(
    queries: Queries,
    tenantId: TenantId,
    { registrations, unreadable }: MissingRegistrations,
    freshKey: Uint8Array,
  ): Promise<void> {
    if (unreadable.length === 0 && registrations.every(({ size }) => size === 0)) return;
    const known = await readKey(queries, tenantId);
    if (known === undefined) await queries.query(insertKey, [tenantId, freshKey]);
    const key = known ?? freshKey;
    const unreadableArtifact = storedArtifact(key, unreadableName);
    await addTo(
      queries,
      tenantId,
      unreadable.map((leafIndex) => ({ artifact: unreadableArtifact, leafIndex, isReliedOn: true })),
    );
    for (let pending = byArtifact(key, registrations); pending.length > 0; )
      pending = await indexPage(queries, tenantId, key, pending);
  }
}

/** Indexes registrations of some of the artifacts. Resolves with the others. */
async function indexPage(
  queries: Queries,
  tenantId: TenantId,
  key: Uint8Array,
  pending: readonly FreshRegistrations[],
): Promise<readonly FreshRegistrations[]> {
  const { rows } = await queries.query(reliedOn, [tenantId, pending.map(({ artifact }) => artifact)]);
  const known = Map.groupBy(rows.map(toRegistrationRow), ({ artifact }) => hexOf(artifact));
  const later = new Set(rows.filter(isLater).map(({ artifact }) => hexOf(artifact as Uint8Array)));
  const waits = ({ artifact }: FreshRegistrations) => later.has(hexOf(artifact));
  const changes = pending
    .filter((one) => !waits(one))
    .map(({ artifact, fresh }) => {
      const relied = known.get(hexOf(artifact)) ?? [];
      return {
        artifact,
        ...indexChange(
          relied.map((row) => knownRegistration(key, row)),
          fresh,
        ),
      };
    });
  const superseded = changes.flatMap(({ artifact, superseded }) =>
    superseded.map((leafIndex) => ({ artifact, leafIndex })),
  );
  await Promise.all([
    ...(superseded.length === 0 ? [] : [queries.query(supersede, [tenantId, ...columns(superseded)])]),
    addTo(
      queries,
      tenantId,
      changes.flatMap(({ artifact, added }) => added.map((row) => ({ artifact, ...row }))),
    ),
  ]);
  return pending.filter(waits);
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

async function addTo(
  queries: Queries,
  tenantId: TenantId,
  rows: readonly { readonly artifact: Uint8Array; readonly leafIndex: number; readonly isReliedOn: boolean }[],
): Promise<void> {
  if (rows.length === 0) return;
  const [artifacts, leaves] = columns(rows);
  await queries.query(addRows, [tenantId, artifacts, rows.map(({ isReliedOn }) => (isReliedOn ? 1 : 0)), leaves]);
}
