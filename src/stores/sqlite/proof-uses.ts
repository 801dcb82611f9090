/** The proofs that callers have used, in the writer's thread. */
import type { TenantId } from "../../base/ids.ts";
import type { SqliteConnection, SqliteStatement } from "./connection.ts";
import { ExpiredRows } from "./expired-rows.ts";

/** One proof, under the tenant of the caller that used it. */
export interface ProofUse {
  readonly tenantId: TenantId;
  /** Names the proof: 43 characters. */
  readonly proof: string;
}

export interface ProofRow extends ProofUse {
  /** Milliseconds since the Unix epoch from which on the use may be forgotten. */
  readonly expiresAtMs: number;
}

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
