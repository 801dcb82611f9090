/** The record that says that a legal hold ended: from its leaf on, what it covered could be erased. */
import type { Clock } from "../../base/clock.ts";
import { newRecordId, type PrincipalId, type RandomFill, type RequestId } from "../../base/ids.ts";
import type { LegalHold } from "../ports/records-administration.ts";
import type { ErasureStatement } from "./erasure.ts";
import type { AppendableRecord } from "./record.ts";

export interface HoldRelease extends ErasureStatement {
  readonly clock: Clock;
  readonly random: RandomFill;
}

/** The hold's own reason stays out: whoever wrote it was not told that it could never be erased. */
export function holdReleaseRecord(
  { tenantId, recordId: held, placedAtMs }: LegalHold,
  { reason, operator, clock, random }: HoldRelease,
): AppendableRecord {
  const recordId = newRecordId(clock, random);
  return {
    kind: "hold_release",
    recordId,
    tenantId,
    requestId: recordId as string as RequestId,
    caller: { principal_id: operator as PrincipalId, subject: operator, auth_source: "operator" },
    route: "ledger hold release",
    request: { ...(held !== undefined && { record_id: held }), reason },
    outcome: { placed_at: new Date(placedAtMs).toISOString() },
  };
}
