import { count, type Log, reportCounts } from "../api.ts";
import { Chart, daysTo } from "../chart.tsx";
import { useLoaded, useTitle } from "../hooks.ts";
import { Command, grouped, paths, Show, Top, useLog } from "../parts.tsx";
import { boxOf, searchCommand } from "../query.ts";
import { NoLog } from "./no-log.tsx";

const days = 30;
const period = { last: `${days}d` };

export function OverviewPage({ log: name }: { readonly log: string }) {
  useTitle("Overview");
  const log = useLog(name);
  return log === undefined ? <NoLog /> : <Overview key={name} log={log} />;
}

function Overview({ log }: { readonly log: Log }) {
  const decided = useLoaded((signal) => decisionsOf(log.name, signal), [log.name]);
  // After the others: the listener runs two searches at once, for everyone.
  const isReady = decided.state === "done";
  const watched = useLoaded(
    (signal) => (isReady ? watchedOf(log.name, signal) : new Promise<never>(() => {})),
    [log.name, isReady],
  );
  const marks = watched.state === "done" ? watched.value.marks : [];
  return (
    <>
      <h1>
        Decisions of <span class="name">{log.tenant_id}</span>
      </h1>
      <Show loaded={decided} what="counts">
        {({ allowed, denied, reasons, principals }) => (
          <>
            <div class="tiles">
              <Tile name="Allowed" records={allowed.records} href={inLedger(log, "outcome:allow")} />
              <Tile name="Denied" records={denied.records} href={inLedger(log, "outcome:deny")} />
              {watched.state === "done" && (
                <>
                  <Tile
                    name="Without evidence"
                    records={watched.value.unevidenced.records}
                    href={paths.reports(log.name, { template: "unevidenced", ...period })}
                  />
                  <Tile
                    name="Break-glass"
                    records={watched.value.breakGlass.records}
                    href={inLedger(log, "alert:break-glass")}
                  />
                </>
              )}
            </div>
            <Chart
              days={daysTo(new Date(), days)}
              series={[
                { name: "Allowed", tone: "--good", counted: allowed },
                { name: "Denied", tone: "--bad", counted: denied },
              ]}
              marks={marks}
              caption={`Allowed and denied decisions by day, in UTC.${marks.length > 0 ? " Dashed: the first decision of another policy revision." : ""}`}
            />
            <div class="columns">
              <Top
                title="Denied because of"
                counted={reasons}
                hrefOf={(reason) => inLedger(log, boxOf({ outcome: "deny", reason }))}
              >
                Nothing was denied.
              </Top>
              <Top
                title="Denied to"
                counted={principals}
                hrefOf={(principal) => inLedger(log, boxOf({ principal, outcome: "deny" }))}
              >
                Nothing was denied.
              </Top>
            </div>
            <Show loaded={watched} what="evidence">
              {({ unevidenced, breakGlass }) => (
                <>
                  <Chart
                    days={daysTo(new Date(), days)}
                    series={[
                      { name: "Without evidence", tone: "--warn", counted: unevidenced },
                      { name: "Break-glass", tone: "--link", counted: breakGlass },
                    ]}
                    caption="Decisions without evidence, and break-glass decisions, by day, in UTC."
                  />
                  <Top
                    title="Without evidence, by principal"
                    counted={{ values: unevidenced.principals }}
                    hrefOf={(id) => paths.principal(log.name, id)}
                  >
                    Every allowed act has its evidence.
                  </Top>
                </>
              )}
            </Show>
          </>
        )}
      </Show>
      <Command text={`${searchCommand(log.tenant_id, { outcome: "deny", ...period })} --count-by day`} />
    </>
  );
}

async function decisionsOf(log: string, signal: AbortSignal) {
  const denials = { outcome: "deny", ...period };
  const allowed = await count(log, { outcome: "allow", ...period }, "day", signal);
  const denied = await count(log, denials, "day", signal);
  const reasons = await count(log, denials, "reason", signal);
  return { allowed, denied, reasons, principals: await count(log, denials, "principal", signal) };
}

async function watchedOf(log: string, signal: AbortSignal) {
  const breakGlass = await count(log, { alert: "break-glass", ...period }, "day", signal);
  const { records, by_time, values, revisions } = await reportCounts(log, "unevidenced", period, signal);
  // The first revision was in force before.
  const marks = revisions.slice(1).map(({ revision, since }) => ({ at: since, text: revision }));
  return { breakGlass, marks, unevidenced: { records, values: by_time, principals: values } };
}

function inLedger(log: Log, box: string): string {
  return paths.ledger(log.name, `${box} last:${days}d`);
}

function Tile(props: { readonly name: string; readonly records: number; readonly href: string }) {
  return (
    <a class="tile" href={props.href}>
      <strong>{grouped(props.records)}</strong>
      <span>
        {props.name} in {days} days
      </span>
    </a>
  );
}
