import { useEffect, useState } from "preact/hooks";
import { type Criteria, type Log, reportFile } from "../api.ts";
import { useFragment, useLoaded, useTitle } from "../hooks.ts";
import { Command, Show, useLog } from "../parts.tsx";
import { shellWord } from "../query.ts";
import { NoLog } from "./no-log.tsx";

const templates = {
  access: "Accesses",
  denials: "Denials",
  unevidenced: "Decisions without evidence",
  "break-glass": "Break-glass",
  erasures: "Erasures",
} as const;
const periods = { "1d": "the last day", "7d": "the last 7 days", "30d": "the last 30 days", "90d": "the last 90 days" };

export function ReportsPage({ log: name }: { readonly log: string }) {
  useTitle("Reports");
  const log = useLog(name);
  return log === undefined ? <NoLog /> : <Reports key={name} log={log} />;
}

function Reports({ log }: { readonly log: Log }) {
  const [members, write] = useFragment();
  const template = members.get("template") ?? "access";
  const [from, to] = [members.get("from") ?? "", members.get("to") ?? ""];
  const last = from === "" ? (members.get("last") ?? "30d") : "";
  const chosen: Criteria = { template, ...(from === "" ? { last } : { from, ...(to !== "" && { to }) }) };
  return (
    <>
      <h1>
        Reports of <span class="name">{log.tenant_id}</span>
      </h1>
      <div class="filters">
        <label>
          <span>Report</span>
          <select value={template} onChange={(event) => write({ ...chosen, template: event.currentTarget.value })}>
            {Object.entries(templates).map(([value, text]) => (
              <option key={value} value={value}>
                {text}
              </option>
            ))}
          </select>
        </label>
        <label>
          <span>Period</span>
          <select value={last} onChange={(event) => write({ template, last: event.currentTarget.value })}>
            {last === "" && <option value="">between days</option>}
            {Object.entries(periods).map(([value, text]) => (
              <option key={value} value={value}>
                {text}
              </option>
            ))}
          </select>
        </label>
        <Days from={from} to={to} onChoose={(days) => write({ template, ...days })} />
      </div>
      <Shown key={JSON.stringify(chosen)} log={log} chosen={chosen} />
      <Command text={commandOf(log.tenant_id, chosen)} />
    </>
  );
}

/** A period from the beginning of a day up to the beginning of another, in UTC. */
function Days(props: { readonly from: string; readonly to: string; onChoose(days: Criteria): void }) {
  const { from, to, onChoose } = props;
  const timeOf = (day: string) => (day === "" ? "" : `${day}T00:00:00Z`);
  return (
    <>
      <label>
        <span>From (UTC)</span>
        <input
          type="date"
          value={from.slice(0, 10)}
          onChange={(event) => onChoose({ from: timeOf(event.currentTarget.value), to })}
        />
      </label>
      <label>
        <span>To, without that day</span>
        <input
          type="date"
          value={to.slice(0, 10)}
          disabled={from === ""}
          onChange={(event) => onChoose({ from, to: timeOf(event.currentTarget.value) })}
        />
      </label>
    </>
  );
}

/** The very file, in a frame that can run nothing, with links that save it. */
function Shown({ log, chosen }: { readonly log: Log; readonly chosen: Criteria }) {
  const loaded = useLoaded(async (signal) => fileOf(await reportFile(log.name, chosen, signal)), [log.name]);
  const [csv, setCsv] = useState<string>();
  const [error, setError] = useState<Error>();
  const page = loaded.state === "done" ? loaded.value.address : undefined;
  useEffect(() => () => release(page), [page]);
  useEffect(() => () => release(csv), [csv]);
  const name = `${chosen.template}-${log.tenant_id}`;
  const makeCsv = async () => {
    try {
      setCsv(addressOf(await reportFile(log.name, { ...chosen, format: "csv" })));
    } catch (failure) {
      setError(failure instanceof Error ? failure : new Error(String(failure)));
    }
  };
  return (
    <section aria-label="Report">
      <Show loaded={loaded} what="the report">
        {({ address, proof }) => (
          <>
            <p class="pages">
              <a href={address} download={`${name}.html`}>
                Save as HTML
              </a>
              {csv === undefined ? (
                <button type="button" onClick={makeCsv}>
                  Make a CSV
                </button>
              ) : (
                <a href={csv} download={`${name}.csv`}>
                  Save as CSV
                </a>
              )}
            </p>
            {error !== undefined && <Show loaded={{ state: "failed", error }} what="" children={() => null} />}
            <iframe class="report" title="The report" sandbox="" src={address} />
            {proof !== undefined && <Command name="Proof by command" text={proof} />}
          </>
        )}
      </Show>
    </section>
  );
}

/** The file's address, and the command on its cover that packs the proof of its period. */
async function fileOf(file: Blob) {
  const [proof] = /svc-platform-api ledger pack --tenant [^<]*/.exec(await file.text()) ?? [];
  return { address: addressOf(file), proof };
}

function addressOf(file: Blob): string {
  return URL.createObjectURL(file);
}

function release(address: string | undefined): void {
  if (address !== undefined) URL.revokeObjectURL(address);
}

/** The command that makes the same file, for a POSIX shell. */
export function commandOf(tenant: string, { template = "", ...period }: Criteria): string {
  const words = Object.entries({ tenant, template, ...period }).map(([name, value]) => `--${name} ${shellWord(value)}`);
  return `svc-platform-api ledger report ${words.join(" ")} --out report.html --csv`;
}
