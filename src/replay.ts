/** A recorded decision, evaluated again from the store that holds it. */
import { existsSync } from "node:fs";
import type { RecordId, TenantId } from "./base/ids.ts";
import { type Irreproducible, type Replay, replayDecision } from "./domain/replay.ts";
import type { PolicyEngine } from "./policy/decision.ts";
import { openSqliteArchive } from "./stores/sqlite/archive.ts";

export type { Evaluated, Irreproducible, OutcomeDifference, Replay } from "./domain/replay.ts";

/** Reads an embedded store, beside a running service or without one. Rejects where it cannot be read. */
export async function replayFromSqlite(
  path: string,
  tenantId: TenantId,
  decisionId: RecordId,
  current: PolicyEngine,
): Promise<Replay | Irreproducible> {
  if (!existsSync(path)) throw new Error(`${path} is missing`);
  const archive = openSqliteArchive(path);
  try {
    return await replayDecision(archive, tenantId, decisionId, current);
  } finally {
    archive.close();
  }
}
