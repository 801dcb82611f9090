import { type Log, newestRows, type Row } from "../api.ts";
import { useFragment, useLoaded, useTitle } from "../hooks.ts";
import { Command, Facts, paths, Result, Show, Time, useLog, whyOf } from "../parts.tsx";
import { searchCommand } from "../query.ts";
import { NoLog } from "./no-log.tsx";

/** Records of one page of the history; more are behind a link to the ledger. */
const maxRecords = 1_000;

const lanes = ["protect", "access", "rewrap", "denied"] as const;
type Lane = (typeof lanes)[number];

export function ArtifactPage({ log: name }: { readonly log: string }) {
  useTitle("Artifact");
  const log = useLog(name);
  const [members] = useFragment();
  const [digest, cid] = [members.get("digest"), members.get("cid")];
  if (log === undefined) return <NoLog />;
  if (digest !== null) return <Artifact log={log} parameter="artifact_digest" value={digest} />;
  if (cid !== null) return <Artifact log={log} parameter="cid" value={cid} />;
  return <p class="note">The address names no artifact.</p>;
}

function Artifact(props: { readonly log: Log; readonly parameter: "artifact_digest" | "cid"; readonly value: string }) {
  const { log, parameter, value } = props;
  const loaded = useLoaded((signal) => historyOf(log.name, { [parameter]: value }, signal), [log.name, value]);
  return (
    <>
      <h1>Artifact</h1>
      <p>
        <code class="long">{value}</code>
      </p>
      <Show loaded={loaded} what="its history">
        {({ rows, isWhole }) =>
          rows.length === 0 ? (
            <p class="note">No record of {log.tenant_id} names it.</p>
          ) : (
            <History log={log} rows={rows} isWhole={isWhole} />
          )
        }
      </Show>
      <p>
        <a href={paths.ledger(log.name, `${parameter === "cid" ? "cid" : "digest"}:${value}`)}>In the ledger</a>
      </p>
      <Command text={searchCommand(log.tenant_id, { [parameter]: value })} />
    </>
  );
}

/** What names the artifact, and the decisions that those records cite, in the order of the log. */
async function historyOf(log: string, name: Readonly<Record<string, string>>, signal: AbortSignal) {
  const { found, next } = await newestRows(log, { ...name, limit: String(maxRecords) }, signal);
  const known = new Set(found.map(({ record_id }) => record_id));
  const cited = [...new Set(found.flatMap(({ summary }) => summary?.decision_id ?? []))].filter((id) => !known.has(id));
  const decisions: Row[] = [];
  for (const id of cited) decisions.push(...(await newestRows(log, { record_id: id }, signal)).found);
  const rows = [...found, ...decisions].sort((one, other) => one.leaf_index - other.leaf_index);
  return { rows, isWhole: next === undefined };
}

function History(props: { readonly log: Log; readonly rows: readonly Row[]; readonly isWhole: boolean }) {
  const { log, rows, isWhole } = props;
  const labels = [...new Set(rows.flatMap(({ summary }) => summary?.labels ?? []))];
  const people = [...new Set(rows.flatMap(({ summary }) => summary?.principal ?? []))];
  const denials = rows.filter(isDenial).length;
  return (
    <>
      {!isWhole && <p class="note">Only the newest {maxRecords} records are here. The ledger has all.</p>}
      <Facts
        pairs={[
          ["Labels ever", labels.join(", ") || "none"],
          ["Principals", people.join(", ")],
          ["Records", `${rows.length}, of which ${denials} denials`],
        ]}
      />
      <div class="wide">
        <table class="timeline">
          <thead>
            <tr>
              <th scope="col">Time (UTC)</th>
              {lanes.map((lane) => (
                <th key={lane} scope="col">
                  {lane}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.leaf_index}>
                <th scope="row">
                  <Time at={row.recorded_at} />
                </th>
                {lanes.map((lane) => (
                  <td key={lane} data-name={lane}>
                    {laneOf(row) === lane && <Event log={log} row={row} />}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

function Event({ log, row }: { readonly log: Log; readonly row: Row }) {
  const { principal, outcome, operation } = row.summary ?? {};
  return (
    <a class="event" href={paths.record(log.name, row.record_id)}>
      {row.kind === "decision" ? operation : row.kind.replaceAll("_", " ")}{" "}
      {row.erased ? "erased" : outcome !== undefined && <Result word={outcome} />}
      <span class="quiet"> {principal}</span>
      {row.kind === "decision" && !row.erased && <span class="quiet why">{whyOf(row)}</span>}
    </a>
  );
}

/** Whether it is a decision that denied: an event is not one, whatever word its caller gives as its outcome. */
function isDenial({ kind, summary }: Row): boolean {
  return kind === "decision" && summary?.outcome === "denied";
}

/** Denials and their events have a separate lane; keys are wrapped to protect and unwrapped to access. */
export function laneOf(row: Row): Lane {
  const { operation } = row.summary ?? {};
  if (isDenial(row) || operation === "deny") return "denied";
  if (operation === "rewrap") return "rewrap";
  return operation === "access" || operation === "unwrap" ? "access" : "protect";
}
