import { type Counted, type Criteria, count, type Log, newestRows, type Row } from "../api.ts";
import { Chart, daysTo } from "../chart.tsx";
import { useFragment, useLoaded, useTitle } from "../hooks.ts";
import { Command, Facts, grouped, paths, Rows, Show, Top, useLog } from "../parts.tsx";
import { boxOf, searchCommand } from "../query.ts";
import { NoLog } from "./no-log.tsx";

const days = 30;
const period = { last: `${days}d` };
/** Allowed decisions whose evidence is looked at, in pages of 1,000. */
const maxPages = 5;
const newest = 20;

export function PrincipalPage({ log: name }: { readonly log: string }) {
  useTitle("Principal");
  const log = useLog(name);
  const [members] = useFragment();
  const id = members.get("id");
  if (log === undefined) return <NoLog />;
  return id === null ? <p class="note">The address names no principal.</p> : <Principal key={id} log={log} id={id} />;
}

function Principal({ log, id }: { readonly log: Log; readonly id: string }) {
  const loaded = useLoaded((signal) => workOf(log.name, id, signal), [log.name, id]);
  const inLedger = (criteria: Criteria) => paths.ledger(log.name, boxOf({ principal: id, ...criteria, ...period }));
  return (
    <>
      <h1>
        Principal: <span class="name">{id}</span>
      </h1>
      <Show loaded={loaded} what="its decisions">
        {({ allowed, denied, unevidenced, reasons, resources, artifacts, isWhole, rows }) => (
          <>
            <Facts
              pairs={[
                [
                  "Allowed",
                  <a href={inLedger({ outcome: "allow" })}>
                    {grouped(allowed.records)} in {days} days
                  </a>,
                ],
                [
                  "Denied",
                  <a href={inLedger({ outcome: "deny" })}>
                    {grouped(denied.records)} in {days} days
                  </a>,
                ],
                [
                  "Without evidence",
                  `${grouped(unevidenced.records)} in ${days} days${isWhole ? "" : `, of the newest ${maxPages},000 that were allowed`}`,
                ],
              ]}
            />
            <Chart
              days={daysTo(new Date(), days)}
              series={[
                { name: "Allowed", tone: "--good", counted: allowed },
                { name: "Denied", tone: "--bad", counted: denied },
              ]}
              caption="Its allowed and denied decisions by day, in UTC."
            />
            {unevidenced.records > 0 && (
              <Chart
                days={daysTo(new Date(), days)}
                series={[{ name: "Without evidence", tone: "--warn", counted: unevidenced }]}
                caption="Its decisions without evidence by day, in UTC."
              />
            )}
            <div class="columns">
              <Top
                title="Denied because of"
                counted={reasons}
                hrefOf={(reason) => inLedger({ outcome: "deny", reason })}
              >
                Nothing was denied.
              </Top>
              <Top title="Resources" counted={resources} hrefOf={(resource_id) => inLedger({ resource_id })}>
                None is named.
              </Top>
              <Top
                title="Artifacts"
                counted={artifacts}
                isShort
                hrefOf={(digest) => paths.artifact(log.name, { digest })}
              >
                None is named.
              </Top>
            </div>
            <h2>Newest records</h2>
            {rows.length === 0 ? <p class="note">There is none.</p> : <Rows log={log.name} rows={rows} />}
          </>
        )}
      </Show>
      <p>
        <a href={paths.ledger(log.name, boxOf({ principal: id }))}>In the ledger</a>
      </p>
      <Command text={searchCommand(log.tenant_id, { principal: id, ...period })} />
    </>
  );
}

async function workOf(log: string, principal: string, signal: AbortSignal) {
  const its = { principal, ...period };
  const { found: rows } = await newestRows(log, { principal, limit: String(newest) }, signal);
  const allowed = await count(log, { ...its, outcome: "allow" }, "day", signal);
  const denied = await count(log, { ...its, outcome: "deny" }, "day", signal);
  const reasons = await count(log, { ...its, outcome: "deny" }, "reason", signal);
  const resources = await count(log, its, "resource", signal);
  const acts: Row[] = [];
  let next: number | undefined;
  let pages = 0;
  do {
    const after: Criteria = next === undefined ? {} : { after: String(next) };
    const page = await newestRows(log, { ...its, ...after, outcome: "allow", limit: "1000" }, signal);
    acts.push(...page.found);
    next = page.next;
  } while (next !== undefined && ++pages < maxPages);
  const unevidenced = acts.filter(({ summary }) => isOpen(summary?.evidence)).map(({ recorded_at }) => recorded_at);
  return {
    ...{ rows, allowed, denied, reasons, resources },
    artifacts: countsIn(acts.flatMap(({ summary }) => summary?.artifact_digest ?? [])),
    unevidenced: countsIn(unevidenced.map((time) => time.slice(0, 10))),
    isWhole: next === undefined,
  };
}

/** Evidence that an auditor asks about: none arrived, or none that says that it was done. */
function isOpen(evidence: string | undefined): boolean {
  return evidence !== undefined && !["evidenced", "not_expected"].includes(evidence);
}

/** Counts values, most frequent first. */
export function countsIn(found: readonly string[]): Counted {
  const counts = new Map<string, number>();
  for (const value of found) counts.set(value, (counts.get(value) ?? 0) + 1);
  const values = [...counts].map(([value, records]) => ({ value, records }));
  return { records: found.length, values: values.sort((one, other) => other.records - one.records) };
}
