import type { Command } from "commander";
import { systemClock } from "../../base/clock.ts";
import type { StoreArchive } from "../../ledger/ports/archive.ts";
import type { TimedLog } from "../../ledger/ports/store.ts";
import { isAhead } from "../../stores/store-checks.ts";
import { confirmStatedStepOrReport, type StatedOptions, withConfirmation, withStatement } from "../confirmation.ts";
import { type CommonOptions, withCommonOptions } from "../options.ts";
import { createOutput } from "../output.ts";
import type { Terminal } from "../terminal.ts";
import { withAdministrationOrReport } from "./administration.ts";
import { withStoreOrReport } from "./store.ts";

type AcceptOptions = CommonOptions & StatedOptions;

/** `ledger clock accept`: the way on for a store that was written to while the clock was ahead. */
export function addLedgerClockCommand(ledger: Command, terminal: Terminal): void {
  const command = ledger.command("clock").description("the times of the logs").command("accept");
  withConfirmation(withStatement(withCommonOptions(command)))
    .description("record that a clock was ahead, so that the service starts on logs whose newest time has not come yet")
    .action((options: AcceptOptions) => accept(options, terminal));
}

/** The logs on which no service starts: they are ahead of the clock, and no operator has accepted their time. */
export async function logsAhead(archive: StoreArchive, nowMs: number): Promise<readonly TimedLog[]> {
  const ahead: TimedLog[] = [];
  for (const head of await archive.logs()) {
    const { lastRecordedAtMs, isTimeAccepted } = await archive.companions(head);
    if (isAhead({ lastRecordedAtMs }, nowMs) && !isTimeAccepted) ahead.push({ ...head, lastRecordedAtMs });
  }
  return ahead;
}

async function accept(options: AcceptOptions, terminal: Terminal): Promise<void> {
  const output = createOutput(options.json === true, terminal);
  const nowMs = systemClock.now();
  let ahead: readonly TimedLog[] | undefined;
  await withStoreOrReport(options, output, async ({ archive }) => {
    ahead = await logsAhead(archive, nowMs);
  });
  if (ahead === undefined) return;
  if (ahead.length === 0) return output.succeed({ logs: [] }, "no log has a time to accept");
  const logs = ahead.map(({ tenantId, origin, lastRecordedAtMs }) => {
    return { tenant_id: tenantId, origin, accepted_time: new Date(lastRecordedAtMs).toISOString() };
  });
  const lines = logs.map((log) => `${log.origin} (tenant ${log.tenant_id}): newest record of ${log.accepted_time}`);
  const clock = `This machine's clock says ${new Date(nowMs).toISOString()}`;
  const step = {
    question: `${lines.join("; ")}. ${clock}. Accept these times for good?`,
    text: [...lines, `${clock}: would be accepted`].join("\n"),
    value: { logs },
  };
  const statement = await confirmStatedStepOrReport(step, options, terminal, output);
  if (statement === undefined) return;
  await withAdministrationOrReport(options, output, async (administration) => {
    const done: typeof logs = [];
    for (const log of logs) if (await administration.acceptTime(log.tenant_id, statement)) done.push(log);
    output.succeed({ logs: done }, [...lines, `logs with a new leaf that accepts this: ${done.length}`].join("\n"));
  });
}
