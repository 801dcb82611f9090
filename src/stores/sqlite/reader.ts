/** All that reads records back: in the reader's thread, on a connection that cannot write. */
import type { RecordId, TenantId } from "../../base/ids.ts";
import type { StoredRecord } from "../../ledger/ports/record.ts";
import type { StoredCosignature } from "../../ledger/ports/store.ts";
import { openStoredRecord } from "../stored-record.ts";
import type { SqliteConnection, SqliteStatement } from "./connection.ts";
import { readCosignatures } from "./log/cosignatures.ts";
import { LogReader } from "./log/log-reader.ts";
import { RegistrationReader } from "./registrations/registration-reader.ts";
import { SearchReader } from "./search/search-reader.ts";

export class SqliteReader {
  readonly #connection: SqliteConnection;
  readonly #find: SqliteStatement;
  readonly #policyRevision: SqliteStatement;
  readonly #probe: SqliteStatement;
  readonly logs: LogReader;
  readonly records: SearchReader;
  readonly registrations: RegistrationReader;

  /** The connection becomes the reader's: it is closed with it. */
  constructor(connection: SqliteConnection) {
    this.#connection = connection;
    this.logs = new LogReader(connection);
    this.records = new SearchReader(connection);
    this.registrations = new RegistrationReader(connection);
    // One statement is one snapshot: an erasure in between cannot show half of itself.
    this.#find = connection.prepare(
      `SELECT leaf, sealed, opening
         FROM entries LEFT JOIN openings USING (tenant_id, record_id)
        WHERE tenant_id = ? AND record_id = ?`,
    );
    this.#policyRevision = connection.prepare("SELECT content FROM policy_revisions WHERE revision = ?");
    this.#probe = connection.prepare("SELECT store_id FROM store");
  }

  /** Finds, opens and verifies a record. Throws `DamagedError` when what is stored does not verify. */
  find(tenantId: TenantId, recordId: RecordId): StoredRecord | "unknown" | "erased" {
    const row = this.#find.get(tenantId, recordId);
    if (row === undefined) return "unknown";
    if (row.opening === null) return "erased";
    const [leaf, sealed, opening] = [row.leaf, row.sealed, row.opening] as [Uint8Array, Uint8Array, Uint8Array];
    return openStoredRecord(`record ${recordId}`, leaf, sealed, opening);
  }

  /** Text that was kept of a policy revision. */
  policyRevision(revision: string): string | undefined {
    return this.#policyRevision.get(revision)?.content as string | undefined;
  }

  cosignatures(): readonly StoredCosignature[] {
    return readCosignatures(this.#connection);
  }

  /** Throws when the file cannot be read. */
  probe(): void {
    if (this.#probe.get() === undefined) throw new Error("The store has lost its identity.");
  }

  close(): void {
    this.#connection.close();
  }
}
