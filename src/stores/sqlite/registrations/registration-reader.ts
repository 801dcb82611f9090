/** Finds registrations by the artifacts that they name. */
import type { TenantId } from "../../../base/ids.ts";
import { storedArtifact } from "../../../ledger/artifacts/registration-index.ts";
import { foundRegistrations, type RegistrationsLook, toRegistrationRow } from "../../found-registrations.ts";
import { inSnapshot, type SqliteConnection, type SqliteStatement } from "../connection.ts";
import { reliedOnRows } from "./registration-index.ts";

export class RegistrationReader {
  readonly #connection: SqliteConnection;
  readonly #head: SqliteStatement;
  readonly #reliedOn: SqliteStatement;

  /** Throws an SQLite error where the schema has no such index yet. */
  constructor(connection: SqliteConnection) {
    this.#connection = connection;
    this.#head = connection.prepare(
      "SELECT size, registered_to, key FROM log_heads LEFT JOIN artifact_keys USING (tenant_id) WHERE tenant_id = ?",
    );
    this.#reliedOn = connection.prepare(reliedOnRows);
  }

  /** Throws `DamagedError` where what is found does not verify. */
  look(tenantId: TenantId, names: readonly string[]): RegistrationsLook {
    return inSnapshot(this.#connection, () => {
      const head = this.#head.get(tenantId);
      const key = head?.key as Uint8Array | null | undefined;
      const found = names.map((name) =>
        key == null
          ? []
          : foundRegistrations(
              name,
              [...this.#reliedOn.iterate(tenantId, storedArtifact(key, name))].map(toRegistrationRow),
            ),
      );
      return { size: (head?.size ?? 0) as number, indexedTo: (head?.registered_to ?? 0) as number, found };
    });
  }
}
