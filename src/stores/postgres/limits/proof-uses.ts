/** The proofs that callers have used. Each tenant's go together: they share a statement, and no other tenant's row. */

import type { ProofUse } from "../../../auth/proof/replay-store.ts";
import type { TenantId } from "../../../base/ids.ts";
import { ProofBatches, type ProofRow } from "../../proof-batches.ts";
import type { Statement } from "../connection/session.ts";
import type { Sessions } from "../connection/sessions.ts";
import { type Expiring, removeExpired } from "./expired-rows.ts";

const insert: Statement = {
  name: "insert_proofs",
  text: `INSERT INTO proof_uses (tenant_id, proof, expires_at_ms)
         SELECT $1, used.* FROM unnest($2::text[], $3::bigint[]) AS used ON CONFLICT DO NOTHING RETURNING proof`,
};
const expiring: Expiring = { table: "proof_uses", key: "proof", expiry: "expires_at_ms" };

export class ProofUses {
  readonly #sessions: Sessions;
  readonly #now: () => number;
  readonly #batches = new Map<TenantId, ProofBatches>();

  constructor(sessions: Sessions, now: () => number) {
    this.#sessions = sessions;
    this.#now = now;
  }

  /** Rejects with an error of the driver, `UnknownOutcomeError` or `store_unavailable` where it cannot be known. */
  async firstUse(use: ProofUse, expiresAtMs: number): Promise<boolean> {
    const { tenantId } = use;
    const batches = this.#batches.get(tenantId) ?? new ProofBatches((rows) => this.#note(tenantId, rows));
    this.#batches.set(tenantId, batches);
    try {
      return await batches.firstUse(use, expiresAtMs);
    } finally {
      if (batches.isIdle) this.#batches.delete(tenantId);
    }
  }

  /** For each row, in order, whether it was not there yet. */
  async #note(tenantId: TenantId, rows: readonly ProofRow[]): Promise<readonly boolean[]> {
    const expiries = rows.map(({ expiresAtMs }) => Math.ceil(expiresAtMs));
    const inserted = await this.#sessions.retrying(
      () =>
        this.#sessions.transaction(async (session) => {
          const [answer] = await Promise.all([
            session.query(insert, [tenantId, rows.map(({ proof }) => proof), expiries]),
            removeExpired(session, expiring, tenantId, this.#now(), rows.length),
          ]);
          return new Set(answer.rows.map(({ proof }) => proof));
        }),
      tenantId,
    );
    // Of two rows with the same proof the first one has it.
    return rows.map(({ proof }) => inserted.delete(proof));
  }
}
