/** Writes the index of registrations, inside transactions that the caller holds. */
import type { TenantId } from "../../../base/ids.ts";
import {
  byArtifact,
  bytesPerCatchUp,
  indexChange,
  leavesPerCatchUp,
  pageBytes,
  registrationMark,
  storedArtifact,
  unreadableName,
} from "../../../ledger/artifacts/registration-index.ts";
import type { Registration } from "../../../ledger/artifacts/registrations.ts";
import {
  boundRows,
  knownRegistration,
  type MissingRegistrations,
  maxRows,
  missingRegistrations,
  type RegistrationRow,
  rowBytes,
  toRegistrationRow,
} from "../../found-registrations.ts";
import type { SqliteConnection, SqliteStatement } from "../connection.ts";

/** The rows of an artifact that are relied on. What was erased stays so, also where a backup has brought it back. */
export const reliedOnRows = `
  SELECT artifact, leaf_index, record_id, leaf, sealed,
         CASE WHEN erasure_leaf_index IS NULL THEN opening END AS opening
    FROM registered_artifacts
    JOIN entries USING (tenant_id, leaf_index)
    LEFT JOIN openings USING (tenant_id, record_id)
    LEFT JOIN (SELECT tenant_id, record_id, erasure_leaf_index FROM erasures) USING (tenant_id, record_id)
   WHERE tenant_id = ? AND artifact = ? AND relied_on = 1
   ORDER BY registered_artifacts.leaf_index LIMIT ${maxRows}`;

export class RegistrationIndex {
  readonly #indexedTo: SqliteStatement;
  readonly #moveTo: SqliteStatement;
  readonly #key: SqliteStatement;
  readonly #keepKey: SqliteStatement;
  readonly #reliedOn: SqliteStatement;
  readonly #behind: SqliteStatement;
  readonly #add: SqliteStatement;
  readonly #supersede: SqliteStatement;
  readonly #clear: SqliteStatement;

  constructor(connection: SqliteConnection) {
    this.#indexedTo = connection.prepare("SELECT size, registered_to FROM log_heads WHERE tenant_id = ?");
    this.#moveTo = connection.prepare("UPDATE log_heads SET registered_to = ? WHERE tenant_id = ?");
    this.#key = connection.prepare("SELECT key FROM artifact_keys WHERE tenant_id = ?");
    this.#keepKey = connection.prepare("INSERT INTO artifact_keys (tenant_id, key) VALUES (?, ?)");
    this.#reliedOn = connection.prepare(reliedOnRows);
    this.#behind = connection.prepare(
      `SELECT leaf_index, record_id, leaf, sealed,
              CASE WHEN erasure_leaf_index IS NULL THEN opening END AS opening
         FROM entries
         LEFT JOIN openings USING (tenant_id, record_id)
         LEFT JOIN (SELECT tenant_id, record_id, erasure_leaf_index FROM erasures) USING (tenant_id, record_id)
        WHERE tenant_id = ? AND leaf_index >= ? AND leaf_index < ? AND instr(leaf, ?) > 0 ORDER BY leaf_index`,
    );
    this.#add = connection.prepare(
      "INSERT INTO registered_artifacts (tenant_id, artifact, relied_on, leaf_index) VALUES (?, ?, ?, ?)",
    );
    this.#supersede = connection.prepare(
      `UPDATE registered_artifacts SET relied_on = 0
        WHERE tenant_id = ? AND artifact = ? AND relied_on = 1 AND leaf_index = ?`,
    );
    // Of what was erased nothing but its row says which artifact it was of.
    this.#clear = connection.prepare(
      `DELETE FROM registered_artifacts AS registered
        WHERE tenant_id = ?1 AND NOT EXISTS
          (SELECT 1 FROM erasures WHERE erasures.tenant_id = ?1 AND erasures.leaf_index = registered.leaf_index)`,
    );
  }

  /** Begins anew: every leaf is to be looked at again. What is asked meanwhile waits for that, or helps. */
  clear(tenantId: TenantId): void {
    this.#clear.run(tenantId);
    this.#moveTo.run(0, tenantId);
  }

  /** Whether every leaf of the log is looked at. */
  isWhole(tenantId: TenantId): boolean {
    const head = this.#indexedTo.get(tenantId);
    return head === undefined || head.registered_to === head.size;
  }

  /**
   * Adds what is appended behind the leaf `size`, after some of the leaves before it that the index has not got yet.
   *
   * @param leaves the leaf that the index has come to, the size of the log, and its size with what is appended
   * @param registrations of each record that registers something
   * @param key a fresh one, for a log that has none
   * @returns the leaf that the index has come to: `end`, or before `size` where more is missing than one append makes up for
   */
  append(
    tenantId: TenantId,
    { registeredTo, size, end }: { readonly registeredTo: number; readonly size: number; readonly end: number },
    registrations: readonly ReadonlyMap<string, Registration>[],
    key: Uint8Array,
  ): number {
    const indexedTo =
      registeredTo === size ? size : this.catchUp(tenantId, key, Math.max(leavesPerCatchUp, 2 * (end - size)));
    if (indexedTo < size) return indexedTo;
    this.#index(tenantId, { registrations, unreadable: [] }, key);
    return end;
  }

  /**
   * Looks at leaves that nobody looked at yet: as many as `leaves` at most, or as have `bytesPerCatchUp`. Returns how far
   * it has come.
   */
  catchUp(tenantId: TenantId, key: Uint8Array, leaves = leavesPerCatchUp): number {
    const head = this.#indexedTo.get(tenantId);
    if (head === undefined) return 0;
    const [size, first] = [head.size as number, head.registered_to as number];
    if (first === size) return size;
    let end = Math.min(size, first + leaves);
    let page: RegistrationRow[] = [];
    let [ofPage, ofAll] = [0, 0];
    for (const found of this.#behind.iterate(tenantId, first, end, registrationMark)) {
      const row = toRegistrationRow(found);
      page.push(row);
      ofPage += rowBytes(row);
      if (ofPage < pageBytes) continue;
      this.#index(tenantId, missingRegistrations(page), key);
      ofAll += ofPage;
      [page, ofPage] = [[], 0];
      if (ofAll < bytesPerCatchUp) continue;
      end = row.leafIndex + 1;
      break;
    }
    this.#index(tenantId, missingRegistrations(page), key);
    this.#moveTo.run(end, tenantId);
    return end;
  }

  #index(tenantId: TenantId, { registrations, unreadable }: MissingRegistrations, freshKey: Uint8Array): void {
    if (unreadable.length === 0 && registrations.every(({ size }) => size === 0)) return;
    const known = this.#key.get(tenantId)?.key as Uint8Array | undefined;
    if (known === undefined) this.#keepKey.run(tenantId, freshKey);
    const key = known ?? freshKey;
    for (const leafIndex of unreadable) this.#add.run(tenantId, storedArtifact(key, unreadableName), 1, leafIndex);
    for (const { artifact, fresh } of byArtifact(key, registrations)) {
      const rows = boundRows(this.#reliedOn.iterate(tenantId, artifact));
      const change = indexChange(
        rows.map((row) => knownRegistration(key, row)),
        fresh,
      );
      for (const leafIndex of change.superseded) this.#supersede.run(tenantId, artifact, leafIndex);
      for (const { leafIndex, isReliedOn } of change.added)
        this.#add.run(tenantId, artifact, isReliedOn ? 1 : 0, leafIndex);
    }
  }
}
