/** `ledger hold …`: legal holds, which prevent erasure. */
import type { RecordId, TenantId } from "../../base/ids.ts";
import type { LegalHold } from "../../ledger/ports/records-administration.ts";
import { command } from "../frame/command.ts";
import { readStatement, recordedStepFlags } from "../frame/confirmation.ts";
import { Refusal } from "../frame/output.ts";
import { parseNames, withAdministration, withArchive } from "../frame/store.ts";

export const ledgerHoldPlaceCommand = command({
  name: "ledger hold place",
  says: "forbid that a record, or any record of a tenant, is erased",
  options: {
    "--tenant <tenant>": { says: "whose records", required: true },
    "--record <id>": "this record only",
    "--reason <text>": { says: "why; shown if an erasure is tried", required: true },
  },
  run(context) {
    const { reason } = context.options;
    const { tenantId, recordId } = parseCovered(context.options);
    return withAdministration(context, async (administration) => {
      const hold = await administration.placeHold({ tenantId, recordId, reason });
      if (hold === "erased") throw new Refusal("the record is erased: there is nothing to hold");
      if (hold === "unknown")
        throw new Refusal(recordId === undefined ? `tenant ${tenantId} has no log` : "the tenant has no such record");
      const answer = { value: { hold: membersOf(hold) }, text: describeHold(hold) };
      if (hold.reason === reason) return answer;
      throw new Refusal("there is a hold already, for another reason; it stays as it is", answer);
    });
  },
});

export const ledgerHoldReleaseCommand = command({
  name: "ledger hold release",
  says: "end the hold on exactly this: one on the whole tenant goes on when a record's is released",
  options: {
    "--tenant <tenant>": { says: "whose records", required: true },
    "--record <id>": "the hold on this record",
    ...recordedStepFlags,
  },
  async run(context) {
    const { tenantId, recordId } = parseCovered(context.options);
    if (context.options.dryRun !== true) readStatement(context.options);
    const holds = await withArchive(context, ({ archive }) => archive.holds(tenantId));
    const found = holds.find((hold) => hold.recordId === recordId);
    if (found === undefined) throw new Refusal("there is no such hold");
    return {
      question: `Release the ${describeHold(found)}?`,
      preview: { text: `would be released: ${describeHold(found)}`, value: { would_release: membersOf(found) } },
      take: (statement) =>
        withAdministration(context, async (administration) => {
          const hold = await administration.releaseHold(tenantId, recordId, statement);
          if (hold === undefined) throw new Refusal("there is no such hold");
          return { value: { released: membersOf(hold) }, text: `released: ${describeHold(hold)}` };
        }),
    };
  },
});

export const ledgerHoldListCommand = command({
  name: "ledger hold list",
  says: "show the holds that are in force",
  options: { "--tenant <tenant>": "this tenant's only" },
  run(context) {
    const { tenantId } = parseNames(context.options);
    return withArchive(context, async ({ archive }) => {
      const holds = await archive.holds(tenantId);
      return {
        value: { holds: holds.map(membersOf) },
        text: holds.map(describeHold).join("\n") || "there are no holds",
      };
    });
  },
});

/** Describes a hold. */
export function describeHold({ tenantId, recordId, reason, placedAtMs }: LegalHold): string {
  const covered = recordId === undefined ? `all of tenant ${tenantId}` : `record ${recordId} of tenant ${tenantId}`;
  return `legal hold on ${covered} since ${new Date(placedAtMs).toISOString()}: ${reason}`;
}

interface Covered {
  readonly tenant: string;
  readonly record?: string;
  readonly reason?: string;
}

/** Parses the options that say what a hold covers. */
function parseCovered({ tenant, record, reason }: Covered): {
  readonly tenantId: TenantId;
  readonly recordId: RecordId | undefined;
} {
  const { tenantId, recordIds } = parseNames({ tenant, record: record === undefined ? [] : [record], reason });
  return { tenantId: tenantId as TenantId, recordId: recordIds[0] };
}

function membersOf({ tenantId, recordId, reason, placedAtMs }: LegalHold) {
  return {
    tenant_id: tenantId,
    ...(recordId !== undefined && { record_id: recordId }),
    reason,
    placed_at: new Date(placedAtMs).toISOString(),
  };
}
