/** Finds registrations by the artifacts that they name. */
import type { TenantId } from "../../../base/ids.ts";
import { storedArtifact } from "../../../ledger/artifacts/registration-index.ts";
import {
  boundRows,
  foundByName,
  type RegistrationRow,
  type RegistrationsLook,
  toRegistrationRow,
} from "../../found-registrations.ts";
import { inSnapshot, type SqliteConnection, type SqliteStatement } from "../connection.ts";
import { hasNotedErasures } from "../erasure/noted-erasures.ts";
import { reliedOnRows } from "./registration-index.ts";

export class RegistrationReader {
  readonly #connection: SqliteConnection;
  readonly #head: SqliteStatement;
  readonly #reliedOn: SqliteStatement;
  readonly #noted: SqliteStatement | undefined;

  /**
   * Throws an SQLite error where the schema has no such index yet.
   * @param connection on which erased records are hidden (`hideErased`)
   */
  constructor(connection: SqliteConnection) {
    this.#connection = connection;
    this.#head = connection.prepare(
      "SELECT size, registered_to, key FROM log_heads LEFT JOIN artifact_keys USING (tenant_id) WHERE tenant_id = ?",
    );
    this.#reliedOn = connection.prepare(reliedOnRows);
    // What the store itself has among the erased ones is relied on: see `RecordRemains`.
    if (hasNotedErasures(connection))
      this.#noted = connection.prepare(
        `SELECT artifact, leaf_index, record_id, leaf, sealed, NULL AS opening
           FROM temp.noted_erasures
           JOIN entries USING (tenant_id, record_id)
           JOIN registered_artifacts USING (tenant_id, leaf_index)
          WHERE tenant_id = ? AND artifact = ? AND relied_on = 0 LIMIT 1`,
      );
  }

  /** Throws `DamagedError` where what is found does not verify. */
  look(tenantId: TenantId, names: readonly string[]): RegistrationsLook {
    return inSnapshot(this.#connection, () => {
      const head = this.#head.get(tenantId);
      const key = head?.key as Uint8Array | null | undefined;
      const rowsOf = (name: string) => (key == null ? [] : this.#rows(tenantId, storedArtifact(key, name)));
      return {
        size: (head?.size ?? 0) as number,
        indexedTo: (head?.registered_to ?? 0) as number,
        found: foundByName(names, rowsOf),
      };
    });
  }

  #rows(tenantId: TenantId, artifact: Uint8Array): readonly RegistrationRow[] {
    const rows = boundRows(this.#reliedOn.iterate(tenantId, artifact));
    const noted = this.#noted?.get(tenantId, artifact);
    return noted === undefined ? rows : [...rows, toRegistrationRow(noted)];
  }
}
