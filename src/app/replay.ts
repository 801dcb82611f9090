/** A recorded decision, evaluated again from the store that holds it. */
import type { RecordId, TenantId } from "../base/ids.ts";
import { type Irreproducible, type Replay, replayDecision } from "../domain/replay.ts";
import type { PolicyEngine } from "../policy/engine/decision.ts";
import type { StoreSettings } from "../stores/backend.ts";
import { storeBackend } from "../stores/backends.ts";

export type { Evaluated, Irreproducible, OutcomeDifference, Replay } from "../domain/replay.ts";

/** Reads a store, beside a running service or without one. Rejects where it cannot be read. */
export async function replayFromStore(
  settings: StoreSettings,
  tenantId: TenantId,
  decisionId: RecordId,
  current: PolicyEngine,
): Promise<Replay | Irreproducible> {
  const archive = await (await storeBackend(settings)).openArchive();
  try {
    return await replayDecision(archive, tenantId, decisionId, current);
  } finally {
    await archive.close();
  }
}
