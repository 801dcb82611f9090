import { systemClock } from "../../base/clock.ts";
import type { StoreArchive } from "../../ledger/ports/archive.ts";
import type { TimedLog } from "../../ledger/ports/store.ts";
import { isAhead } from "../../stores/sql/store-checks.ts";
import { command } from "../frame/command.ts";
import { recordedStepFlags } from "../frame/confirmation.ts";
import { withAdministration, withArchive } from "../frame/store.ts";

/** Recovery of a store that was written to while the clock was ahead. */
export const ledgerClockCommand = command({
  name: "ledger clock accept",
  says: "record that a clock was ahead, so that the service starts on logs whose newest time has not come yet",
  options: recordedStepFlags,
  async run(context) {
    const nowMs = systemClock.now();
    const ahead = await withArchive(context, ({ archive }) => logsAhead(archive, nowMs));
    if (ahead.length === 0) return { value: { logs: [] }, text: "no log has a time to accept" };
    const logs = ahead.map(({ tenantId, origin, lastRecordedAtMs }) => {
      return { tenant_id: tenantId, origin, accepted_time: new Date(lastRecordedAtMs).toISOString() };
    });
    const lines = logs.map((log) => `${log.origin} (tenant ${log.tenant_id}): newest record of ${log.accepted_time}`);
    const clock = `This machine's clock says ${new Date(nowMs).toISOString()}`;
    return {
      question: `${lines.join("; ")}. ${clock}. Accept these times for good?`,
      preview: { value: { logs }, text: [...lines, `${clock}: would be accepted`].join("\n") },
      take: (statement) =>
        withAdministration(context, async (administration) => {
          const done: typeof logs = [];
          for (const log of logs) if (await administration.acceptTime(log.tenant_id, statement)) done.push(log);
          const text = [...lines, `logs with a new leaf that accepts this: ${done.length}`].join("\n");
          return { value: { logs: done }, text };
        }),
    };
  },
});

/** The logs that prevent a start: they are ahead of the clock, and no operator has accepted their time. */
export async function logsAhead(archive: StoreArchive, nowMs: number): Promise<readonly TimedLog[]> {
  const ahead: TimedLog[] = [];
  for (const head of await archive.logs()) {
    const { lastRecordedAtMs, isTimeAccepted } = await archive.companions(head);
    if (isAhead({ lastRecordedAtMs }, nowMs) && !isTimeAccepted) ahead.push({ ...head, lastRecordedAtMs });
  }
  return ahead;
}
