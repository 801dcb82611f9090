/** Describes erasures that a restored backup has undone, for operators. */
import { plural } from "../../base/visible-text.ts";
import type { UndoneErasure } from "../ports/records-administration.ts";

/** One line for each tenant and cause, for the operator. */
export function describeUndone(undone: readonly UndoneErasure[]): readonly string[] {
  return [...Map.groupBy(undone, ({ tenantId }) => tenantId)].flatMap(([tenantId, ofTenant]) => {
    const recorded = ofTenant.filter(({ erasureLeafIndex }) => erasureLeafIndex !== undefined).length;
    const noted = ofTenant.length - recorded;
    return [
      ...(recorded === 0
        ? []
        : [
            `tenant ${tenantId}: openings or kept answers of ${plural(recorded, "erased record")} are in the store ` +
              "again, as a backup from before the erasure brings them back",
          ]),
      ...(noted === 0
        ? []
        : [
            `tenant ${tenantId}: the anchor notes the erasure of ${plural(noted, "record")}, and the log has no leaf for ` +
              "it: the store is an older copy, or the anchor's file was changed",
          ]),
    ];
  });
}

/** The remedy, for the operator. */
export const undoneRemedy =
  "they are answered as erased, and stay in the store until `ledger reapply-erasures` removes them";
