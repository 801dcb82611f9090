/** All that reads records back: in the reader's thread, on a connection that cannot write. */
import type { RecordId, TenantId } from "../../base/ids.ts";
import { parseLeaf } from "../../ledger/leaf.ts";
import type { StoredRecord } from "../../ledger/ports.ts";
import { open } from "../../ledger/sealing.ts";
import type { SqliteConnection, SqliteStatement } from "./connection.ts";
import { DamagedError } from "./errors.ts";
import { LogReader } from "./log-reader.ts";

export class SqliteReader {
  readonly #connection: SqliteConnection;
  readonly #find: SqliteStatement;
  readonly #policyRevision: SqliteStatement;
  readonly #probe: SqliteStatement;
  readonly logs: LogReader;

  /** The connection becomes the reader's: it is closed with it. */
  constructor(connection: SqliteConnection) {
    this.#connection = connection;
    this.logs = new LogReader(connection);
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
    try {
      const { commitment } = parseLeaf(row.leaf as Uint8Array);
      const record = open(row.sealed as Uint8Array, row.opening as Uint8Array, commitment);
      return JSON.parse(Buffer.from(record).toString("utf8")) as StoredRecord;
    } catch (cause) {
      throw new DamagedError(`The record ${recordId} does not verify.`, { cause });
    }
  }

  /** Text that was kept of a policy revision. */
  policyRevision(revision: string): string | undefined {
    return this.#policyRevision.get(revision)?.content as string | undefined;
  }

  /** Throws when the file cannot be read. */
  probe(): void {
    if (this.#probe.get() === undefined) throw new Error("The store has lost its identity.");
  }

  close(): void {
    this.#connection.close();
  }
}
