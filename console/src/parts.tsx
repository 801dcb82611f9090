/** Parts that several pages show. All text is text: nothing is rendered as markup. */
import type { ComponentChildren } from "preact";
import { createContext } from "preact";
import { useContext, useState } from "preact/hooks";
import { type Counted, type Log, Refusal, type Row } from "./api.ts";
import { fragmentOf, type Loaded } from "./hooks.ts";

/** What the whole console knows once someone signed in. */
export interface Session {
  readonly logs: readonly Log[];
  signOut(): void;
}

export const SessionContext = createContext<Session | undefined>(undefined);

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === undefined) throw new Error("this page needs a session");
  return session;
}

/** The log of this name; undefined if the session does not see it. */
export function useLog(name: string): Log | undefined {
  return useSession().logs.find((log) => log.name === name);
}

export const paths = {
  overview: (log: string) => `/console/logs/${log}`,
  ledger: (log: string, box = "") => withFragment(`/console/logs/${log}/ledger`, { q: box }),
  policies: (log: string, members: Readonly<Record<string, string>> = {}) =>
    withFragment(`/console/logs/${log}/policies`, members),
  playground: (log: string) => `/console/logs/${log}/playground`,
  record: (log: string, id: string) => `/console/logs/${log}/records/${encodeURIComponent(id)}`,
  principal: (log: string, id: string) => withFragment(`/console/logs/${log}/principal`, { id }),
  reports: (log: string, chosen: Readonly<Record<string, string>> = {}) =>
    withFragment(`/console/logs/${log}/reports`, chosen),
  artifact: (log: string, name: Readonly<Record<string, string>>) =>
    withFragment(`/console/logs/${log}/artifact`, name),
};

function withFragment(path: string, members: Readonly<Record<string, string>>): string {
  const fragment = fragmentOf(members);
  return fragment === "" ? path : `${path}#${fragment}`;
}

/** A time in UTC; local time on hover. */
export function Time({ at }: { readonly at: string }) {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return <span>{at}</span>;
  return (
    <time dateTime={at} title={`${date.toLocaleString()} here`}>
      {date.toISOString().slice(0, 19).replace("T", " ")}
    </time>
  );
}

/** A result in a word, with its colour. The word alone says it. */
export function Result({ word }: { readonly word: string }) {
  const good = ["allow", "allowed", "accepted", "completed", "evidenced", "ok", "ready", "success"];
  const bad = ["deny", "denied", "refused", "failed", "missing", "aborted", "error", "not_ready"];
  const tone = good.includes(word) ? "good" : bad.includes(word) ? "bad" : "plain";
  return <span class={`result ${tone}`}>{word.replaceAll("_", " ")}</span>;
}

/** The command line that answers the same, with a button that copies it. A word of it stays on one line. */
export function Command({ text, name = "Same by command" }: { readonly text: string; readonly name?: string }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
  };
  return (
    <p class="command">
      <span class="label">{name}</span>
      <code>
        {text.split(" ").map((word, at) => (
          <>
            {at > 0 && " "}
            <span>{word}</span>
          </>
        ))}
      </code>
      <button type="button" onClick={copy}>
        {copied ? "Copied" : "Copy"}
      </button>
    </p>
  );
}

/** Shows what was loaded; until then, or if it failed, says so. */
export function Show<Value>(props: {
  readonly loaded: Loaded<Value>;
  readonly what: string;
  children(value: Value): ComponentChildren;
}) {
  const { loaded, what } = props;
  if (loaded.state === "loading") return <p class="note">Loading {what}…</p>;
  if (loaded.state === "failed") return <Failure error={loaded.error} />;
  return <>{props.children(loaded.value)}</>;
}

export function Failure({ error }: { readonly error: Error }) {
  const id = error instanceof Refusal ? error.requestId : undefined;
  return (
    <p class="failure" role="alert">
      {error.message}
      {id !== undefined && <span class="quiet"> (request {id})</span>}
    </p>
  );
}

/** Name and value pairs. Pairs without a value are left out. */
export function Facts({ pairs }: { readonly pairs: readonly (readonly [string, ComponentChildren])[] }) {
  const shown = pairs.filter(([, value]) => value !== undefined && value !== "");
  return (
    <dl class="facts">
      {shown.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** A number as it is read: `10,037`. */
export function grouped(value: number): string {
  return value.toLocaleString("en");
}

/** The most frequent values, or why there are none. */
export function Top(props: {
  readonly title: string;
  readonly counted: Pick<Counted, "values">;
  /** Whether values are digests, of which the beginning is enough. */
  readonly isShort?: boolean;
  hrefOf(value: string): string;
  readonly children: ComponentChildren;
}) {
  const { values } = props.counted;
  return (
    <section>
      <h2>{props.title}</h2>
      {values.length === 0 ? (
        <p class="note">{props.children}</p>
      ) : (
        <table class="short">
          <tbody>
            {values.slice(0, 10).map(({ value, records }) => (
              <tr key={value}>
                <th scope="row">
                  <a href={props.hrefOf(value)} title={value}>
                    {props.isShort === true ? <code>{shortened(value)}</code> : value}
                  </a>
                </th>
                <td class="number">{grouped(records)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

/** Any JSON value as its text. */
export function Json({ value }: { readonly value: unknown }) {
  return <pre>{JSON.stringify(value, undefined, 2)}</pre>;
}

/** Reads a dropped or chosen file. */
export function Drop(props: { readonly label: string; readonly note: string; onFile(file: File): void }) {
  const [over, setOver] = useState(false);
  const take = (files: FileList | null | undefined) => {
    const file = files?.[0];
    if (file !== undefined) props.onFile(file);
  };
  return (
    <label
      class={over ? "drop over" : "drop"}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        take(event.dataTransfer?.files);
      }}
    >
      <span>{props.label}</span>
      <input type="file" onChange={(event) => take(event.currentTarget.files)} />
      <span class="quiet">{props.note}</span>
    </label>
  );
}

/** Rows of records. */
export function Rows({ log, rows }: { readonly log: string; readonly rows: readonly Row[] }) {
  return (
    <div class="wide">
      <table class="rows">
        <thead>
          <tr>
            {["Time (UTC)", "Who", "Did", "What", "Result", "Why", "Evidence"].map((name) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <RecordRow key={row.leaf_index} log={log} row={row} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function RecordRow({ log, row }: { readonly log: string; readonly row: Row }) {
  const { summary = {}, kind, erased } = row;
  return (
    <tr>
      <Cell name="Time">
        <a href={paths.record(log, row.record_id)}>
          <Time at={row.recorded_at} />
        </a>
      </Cell>
      <Cell name="Who">
        {summary.principal !== undefined && <a href={paths.principal(log, summary.principal)}>{summary.principal}</a>}
        {summary.application !== undefined && <span class="quiet"> {summary.application}</span>}
      </Cell>
      <Cell name="Did">
        {summary.operation} <span class="quiet">{kind.replaceAll("_", " ")}</span>
      </Cell>
      <Cell name="What">
        {summary.resource || summary.artifact_digest || summary.cids || summary.about_record ? (
          <What log={log} row={row} />
        ) : null}
      </Cell>
      <Cell name="Result">
        {erased ? <Result word="erased" /> : summary.outcome !== undefined && <Result word={summary.outcome} />}
      </Cell>
      <Cell name="Why">{whyOf(row)}</Cell>
      <Cell name="Evidence">{summary.evidence !== undefined && <Result word={summary.evidence} />}</Cell>
    </tr>
  );
}

/** On a narrow screen a cell shows its name, and none if it is empty. */
function Cell(props: { readonly name: string; readonly children: ComponentChildren }) {
  return (
    <td data-name={props.name}>
      <span>{props.children}</span>
    </td>
  );
}

export function whyOf({ kind, erased, summary = {} }: Row): string {
  const { reasons = [], alerts = [], outcome, citation, reason } = summary;
  if (kind === "decision" && !erased && reasons.length === 0)
    return outcome === "denied" ? "no policy permits it" : "reasons withheld";
  const decided = [...reasons, ...alerts.map((alert) => `alert ${alert}`)];
  return decided.length > 0 ? decided.join(", ") : (reason ?? (citation === undefined ? "" : `citation ${citation}`));
}

function What({ log, row }: { readonly log: string; readonly row: Row }) {
  const { resource, artifact_digest: digest, cids, about_record: about } = row.summary ?? {};
  return (
    <>
      {about !== undefined && <a href={paths.record(log, about)}>record {about}</a>}
      {resource?.id}
      {resource?.kind !== undefined && <span class="quiet"> {resource.kind}</span>}{" "}
      <ArtifactLink log={log} digest={digest} cid={cids?.[0]} />
    </>
  );
}

export function ArtifactLink(props: {
  readonly log: string;
  readonly digest?: string | undefined;
  readonly cid?: string | undefined;
}) {
  const { log, digest, cid } = props;
  const name: Readonly<Record<string, string>> | undefined =
    digest !== undefined ? { digest } : cid !== undefined ? { cid } : undefined;
  if (name === undefined) return null;
  const text = digest ?? cid ?? "";
  return (
    <a href={paths.artifact(log, name)} title={text}>
      <code>{shortened(text)}</code>
    </a>
  );
}

/** The beginning of a digest or a CID. */
export function shortened(text: string): string {
  return text.length > 22 ? `${text.slice(0, 19)}…` : text;
}
