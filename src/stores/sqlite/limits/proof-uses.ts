/** The proofs that callers have used, in the writer's thread. */
import type { ProofRow } from "../../proof-batches.ts";
import type { SqliteConnection, SqliteStatement } from "../connection.ts";
import { ExpiredRows } from "./expired-rows.ts";

export class ProofUses {
  readonly #insert: SqliteStatement;
  readonly #expired: ExpiredRows;

  constructor(connection: SqliteConnection) {
    this.#insert = connection.prepare(
      "INSERT INTO proof_uses (tenant_id, proof, expires_at_ms) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
    );
    this.#expired = new ExpiredRows(connection, "proof_uses", "tenant_id, proof", "expires_at_ms");
  }

  /** For each row, in order, whether it was not there yet. To be called in a transaction. */
  note(rows: readonly ProofRow[], nowMs: number): readonly boolean[] {
    const first = rows.map(
      ({ tenantId, proof, expiresAtMs }) =>
        Number(this.#insert.run(tenantId, proof, Math.ceil(expiresAtMs)).changes) === 1,
    );
    this.#expired.remove(nowMs, rows.length);
    return first;
  }
}
