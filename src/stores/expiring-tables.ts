/** Tables with rows that expire. Writes remove a few expired rows of their own tenant; `store compact` removes all. */
import { idempotencyTtlMs } from "../ledger/record/idempotency-record.ts";

export interface ExpiringTable {
  readonly table: string;
  /** Columns of the primary key, the tenant first, separated by commas. */
  readonly key: string;
  /** Column with milliseconds since the Unix epoch. */
  readonly expiry: string;
  /** How long a row is kept after its expiry. */
  readonly keptForMs: number;
}

export const expiringTables: readonly ExpiringTable[] = [
  { table: "kept_answers", key: "tenant_id, scope", expiry: "kept_at_ms", keptForMs: idempotencyTtlMs },
  { table: "proof_uses", key: "tenant_id, proof", expiry: "expires_at_ms", keptForMs: 0 },
  { table: "attempts", key: "tenant_id, counter", expiry: "window_ends_at_ms", keptForMs: 0 },
];
