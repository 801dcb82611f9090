import { useEffect, useState } from "preact/hooks";
import { type Counting, type Criteria, count, type Log, newestRows, type Row } from "../api.ts";
import { csvOf } from "../csv.ts";
import { digestOf } from "../hash.ts";
import { useFragment, useLoaded, useTitle } from "../hooks.ts";
import { Command, Drop, Failure, grouped, Rows, Show, useLog } from "../parts.tsx";
import { boxOf, parseBox, searchCommand } from "../query.ts";
import { NoLog } from "./no-log.tsx";

const pageSize = "50";

const outcomes = ["allow", "deny", "accepted", "refused", "completed", "failed", "aborted", "releasing", "unknown"];
const operations = ["protect", "access", "rewrap", "wrap", "unwrap"];
const periods = { "24h": "the last day", "7d": "the last 7 days", "30d": "the last 30 days" };
/** What is counted, and the criterion that a value of it narrows to. */
const countings: Readonly<Record<Counting, string | undefined>> = {
  principal: "principal",
  reason: "reason",
  resource: "resource_id",
  application: undefined,
  day: undefined,
};

export function LedgerPage({ log: name }: { readonly log: string }) {
  useTitle("Ledger");
  const log = useLog(name);
  return log === undefined ? <NoLog /> : <Ledger key={name} log={log} />;
}

function Ledger({ log }: { readonly log: Log }) {
  const [members, write] = useFragment();
  const box = members.get("q") ?? "";
  const after = members.get("after") ?? "";
  const { criteria, problem } = parseBox(box);
  const narrow = (change: Criteria) => write({ q: boxOf(without({ ...criteria, ...change })) });
  return (
    <>
      <h1>
        Ledger of <span class="name">{log.tenant_id}</span>
      </h1>
      <SearchBox box={box} onSearch={(q) => write({ q })} />
      <div class="filters">
        <Choice name="Result" value={criteria.outcome} values={outcomes} onChoose={(outcome) => narrow({ outcome })} />
        <Choice
          name="Operation"
          value={criteria.operation}
          values={operations}
          onChoose={(operation) => narrow({ operation })}
        />
        <label>
          <span>Period</span>
          <select
            value={criteria.last ?? ""}
            onChange={(event) => narrow({ last: event.currentTarget.value, from: "", to: "" })}
          >
            <option value="">
              {criteria.from === undefined && criteria.to === undefined ? "any time" : "as searched"}
            </option>
            {Object.entries(periods).map(([period, text]) => (
              <option key={period} value={period}>
                {text}
              </option>
            ))}
          </select>
        </label>
      </div>
      <FileSearch onDigest={(digest) => write({ q: boxOf({ artifact_digest: digest, ...periodOf(criteria) }) })} />
      {problem === undefined ? (
        <>
          <Results log={log} criteria={criteria} after={after} onPage={(next) => write({ q: box, after: next })} />
          <Counts log={log} criteria={criteria} onNarrow={narrow} />
        </>
      ) : (
        <Failure error={new Error(problem)} />
      )}
    </>
  );
}

function periodOf(criteria: Criteria): Criteria {
  return Object.fromEntries(Object.entries(criteria).filter(([name]) => ["last", "from", "to"].includes(name)));
}

function without(criteria: Criteria): Criteria {
  return Object.fromEntries(Object.entries(criteria).filter(([, value]) => value !== ""));
}

function SearchBox({ box, onSearch }: { readonly box: string; onSearch(text: string): void }) {
  const [text, setText] = useState(box);
  useEffect(() => setText(box), [box]);
  return (
    <form
      class="search"
      onSubmit={(event) => {
        event.preventDefault();
        onSearch(text.trim());
      }}
    >
      <label>
        <span>Search</span>
        <input
          type="search"
          value={text}
          spellcheck={false}
          autocomplete="off"
          placeholder="principal:payroll outcome:deny last:7d, an id, a digest, a CID, or a resource"
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
      <button type="submit">Search</button>
    </form>
  );
}

function Choice(props: {
  readonly name: string;
  readonly value: string | undefined;
  readonly values: readonly string[];
  onChoose(value: string): void;
}) {
  const { name, value = "", values, onChoose } = props;
  return (
    <label>
      <span>{name}</span>
      <select value={value} onChange={(event) => onChoose(event.currentTarget.value)}>
        <option value="">any</option>
        {values.map((one) => (
          <option key={one} value={one}>
            {one}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Hashes a file here and searches for its digest. */
function FileSearch({ onDigest }: { onDigest(digest: string): void }) {
  const [state, setState] = useState<{ readonly text: string; readonly error?: Error }>({ text: "" });
  const hash = async (file: File) => {
    const progress = (bytes: number) => setState({ text: `Hashing ${file.name}: ${share(bytes, file.size)} %` });
    try {
      progress(0);
      const digest = await digestOf(file, progress);
      setState({ text: `${file.name} is ${digest}` });
      onDigest(digest);
    } catch (error) {
      setState({ text: "", error: error instanceof Error ? error : new Error("the file cannot be read") });
    }
  };
  return (
    <>
      <Drop
        label="Drop a protected file, or choose it"
        note="It is hashed here; nothing of it is sent but its digest."
        onFile={hash}
      />
      <p class="note" role="status">
        {state.text}
      </p>
      {state.error !== undefined && <Failure error={state.error} />}
    </>
  );
}

function share(part: number, whole: number): number {
  return whole === 0 ? 100 : Math.floor((100 * part) / whole);
}

function Results(props: {
  readonly log: Log;
  readonly criteria: Criteria;
  readonly after: string;
  onPage(after: string): void;
}) {
  const { log, criteria, after, onPage } = props;
  const asked = { ...criteria, ...(after !== "" && { after }), limit: pageSize };
  const loaded = useLoaded((signal) => newestRows(log.name, asked, signal), [log.name, JSON.stringify(asked)]);
  return (
    <section aria-label="Results">
      <Show loaded={loaded} what="records">
        {({ found, next, tree_size }) => (
          <>
            {found.length === 0 ? (
              <p class="note">
                {next === undefined
                  ? `No ${after === "" ? "" : "further "}record matches, of ${grouped(tree_size)} in the log of ${log.tenant_id}.`
                  : "Nothing matches so far. The log goes on."}
              </p>
            ) : (
              <>
                <p class="note">
                  {next === undefined && after === ""
                    ? `${grouped(found.length)} of ${grouped(tree_size)} records match.`
                    : `${grouped(found.length)} matching records on this page, newest first. The log has ${grouped(tree_size)}.`}
                </p>
                <Rows log={log.name} rows={found} />
              </>
            )}
            <p class="pages">
              {after !== "" && (
                <button type="button" onClick={() => onPage("")}>
                  First page
                </button>
              )}
              {next !== undefined && (
                <button type="button" onClick={() => onPage(String(next))}>
                  Next page
                </button>
              )}
              {found.length > 0 && <SaveCsv key={JSON.stringify(criteria)} log={log} criteria={criteria} />}
            </p>
          </>
        )}
      </Show>
      <Command text={searchCommand(log.tenant_id, criteria)} />
    </section>
  );
}

/** Most records of a CSV; the command writes more. */
const maxSaved = 20_000;

/** Reads all that matches, page by page, and offers it as a file. */
function SaveCsv({ log, criteria }: { readonly log: Log; readonly criteria: Criteria }) {
  const [state, setState] = useState<{ readonly text: string; readonly address?: string; readonly error?: Error }>();
  useEffect(() => () => URL.revokeObjectURL(state?.address ?? ""), [state?.address]);
  const save = async () => {
    try {
      const rows: Row[] = [];
      let after: Criteria = {};
      let next: number | undefined;
      do {
        setState({ text: `Reading: ${rows.length}` });
        const page = await newestRows(log.name, { ...criteria, ...after, limit: "1000" });
        rows.push(...page.found);
        next = page.next;
        after = { after: String(next) };
      } while (next !== undefined && rows.length < maxSaved);
      const address = URL.createObjectURL(new Blob([csvOf(rows)], { type: "text/csv" }));
      setState({ text: `Save ${next === undefined ? "" : "the newest "}${rows.length} records as CSV`, address });
    } catch (error) {
      setState({ text: "", error: error instanceof Error ? error : new Error(String(error)) });
    }
  };
  if (state?.error !== undefined) return <Failure error={state.error} />;
  if (state?.address !== undefined)
    return (
      <a href={state.address} download={`ledger-${log.tenant_id}.csv`}>
        {state.text}
      </a>
    );
  return (
    <button type="button" disabled={state !== undefined} onClick={save}>
      {state?.text ?? "Make a CSV of all that match"}
    </button>
  );
}

/** Counts by one member, when they are asked for: they read every matching record. */
function Counts(props: { readonly log: Log; readonly criteria: Criteria; onNarrow(change: Criteria): void }) {
  const [by, setBy] = useState<Counting>();
  return (
    <section class="counts" aria-label="Counts">
      <div class="filters">
        <span class="label">Count all that match by</span>
        {(Object.keys(countings) as Counting[]).map((one) => (
          <button key={one} type="button" aria-pressed={one === by} onClick={() => setBy(one === by ? undefined : one)}>
            {one}
          </button>
        ))}
      </div>
      {by !== undefined && <Counted {...props} by={by} />}
    </section>
  );
}

function Counted(props: {
  readonly log: Log;
  readonly criteria: Criteria;
  readonly by: Counting;
  onNarrow(change: Criteria): void;
}) {
  const { log, criteria, by, onNarrow } = props;
  const loaded = useLoaded((signal) => count(log.name, criteria, by, signal), [log.name, JSON.stringify(criteria), by]);
  const parameter = countings[by];
  return (
    <>
      <Show loaded={loaded} what="counts">
        {({ records, values }) => (
          <table class="short">
            <caption>
              {grouped(records)} records, by {by}
            </caption>
            <tbody>
              {values.slice(0, 50).map(({ value, records: some }) => (
                <tr key={value}>
                  <th scope="row">
                    {parameter === undefined ? (
                      value
                    ) : (
                      <button type="button" class="plain" onClick={() => onNarrow({ [parameter]: value })}>
                        {value}
                      </button>
                    )}
                  </th>
                  <td class="number">{grouped(some)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </Show>
      <Command text={`${searchCommand(log.tenant_id, criteria)} --count-by ${by}`} />
    </>
  );
}
