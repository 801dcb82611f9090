import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Log } from "../api.ts";
import { useFragment, useLoaded, useTitle } from "../hooks.ts";
import { Command, Failure, paths, Result, Show, useLog } from "../parts.tsx";
import {
  changedFiles,
  type Directory,
  type Draft,
  directoryOf,
  type Problem,
  type Trial,
  tryDraft,
  type Way,
} from "../policies.ts";
import { shellWord } from "../query.ts";
import { NoLog } from "./no-log.tsx";
import { Download, LayerView, Verdict } from "./record.tsx";

const recordedPeriods = { "": "no", "1d": "of the last day", "7d": "of the last 7 days", "30d": "of the last 30 days" };

export default function PlaygroundPage({ log: name }: { readonly log: string }) {
  useTitle("Playground");
  const log = useLog(name);
  return log === undefined ? <NoLog /> : <Playground key={name} log={log} />;
}

function Playground({ log }: { readonly log: Log }) {
  const loaded = useLoaded(() => directoryOf(log.name), [log.name]);
  return (
    <>
      <h1>Playground</h1>
      <p>
        A copy of the policy files. Change it and try it: nothing is saved, and no decision of the service changes.{" "}
        <a href={paths.policies(log.name)}>Policies in force</a>
      </p>
      <Show loaded={loaded} what="the policy files">
        {(directory) => <Editor log={log} directory={directory} />}
      </Show>
    </>
  );
}

const firstQuestion = (tenant: string) => `tenant: ${JSON.stringify(tenant)}
action: access
principal: { principal_id: someone }
claimed:
  workload: { application: payroll }
  resource: { kind: customer-record }
`;

function Editor({ log, directory }: { readonly log: Log; readonly directory: Directory }) {
  const [members, write] = useFragment();
  const [files, setFiles] = useState(directory.files);
  const [questions, setQuestions] = useState(firstQuestion(log.tenant_id));
  const names = Object.keys(files).sort();
  const file = members.get("file") ?? names.find((name) => name.endsWith(".cedar")) ?? "";
  const since = members.get("since") ?? "";
  const changed = changedFiles(directory.files, files);
  useLeavingWarning(changed.length > 0);
  const draft: Draft = { files, questions, ...(since !== "" && { since }) };
  return (
    <>
      {!directory.in_force && (
        <p class="failure">
          The files of the directory are not what is in force: they were refused, or are not loaded yet. Differences are
          to what is in force.
        </p>
      )}
      <div class="editor">
        <Files
          names={[...new Set([...names, ...changed])].sort()}
          changed={changed}
          file={file}
          onChoose={(name) => write({ file: name, since })}
          onAdd={(name) => {
            setFiles({ ...files, [name]: files[name] ?? "" });
            write({ file: name, since });
          }}
        />
        <FileText
          key={file}
          name={file}
          text={files[file]}
          before={directory.files[file]}
          onText={(text) => setFiles(text === undefined ? without(files, file) : { ...files, [file]: text })}
        />
      </div>
      <label>
        <span>Questions, as in tests/*.yaml: one, or a list of up to 20</span>
        <textarea
          rows={8}
          spellcheck={false}
          value={questions}
          onInput={(event) => setQuestions(event.currentTarget.value)}
        />
      </label>
      <Runner log={log} draft={draft} since={since} onSince={(period) => write({ file, since: period })} />
    </>
  );
}

function without(files: Directory["files"], file: string): Directory["files"] {
  return Object.fromEntries(Object.entries(files).filter(([name]) => name !== file));
}

/** Asks before the page is left, because a draft is nowhere else. */
function useLeavingWarning(isChanged: boolean): void {
  useEffect(() => {
    if (!isChanged) return undefined;
    const warn = (event: BeforeUnloadEvent) => event.preventDefault();
    addEventListener("beforeunload", warn);
    return () => removeEventListener("beforeunload", warn);
  }, [isChanged]);
}

function Files(props: {
  readonly names: readonly string[];
  readonly changed: readonly string[];
  readonly file: string;
  onChoose(name: string): void;
  onAdd(name: string): void;
}) {
  const { names, changed, file, onChoose, onAdd } = props;
  return (
    <div>
      <label>
        <span>File {changed.length > 0 && `(${changed.length} changed)`}</span>
        <select
          size={Math.min(12, Math.max(4, names.length))}
          value={file}
          onChange={(event) => onChoose(event.currentTarget.value)}
        >
          {names.map((name) => (
            <option key={name} value={name}>
              {name}
              {changed.includes(name) ? " · changed" : ""}
            </option>
          ))}
        </select>
      </label>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const name = String(new FormData(event.currentTarget).get("name")).trim();
          if (name !== "") onAdd(name);
          event.currentTarget.reset();
        }}
      >
        <label>
          <span>New file</span>
          <input name="name" placeholder="default/new.cedar" spellcheck={false} autocomplete="off" maxLength={256} />
        </label>
        <button type="submit" class="second">
          Add
        </button>
      </form>
    </div>
  );
}

function FileText(props: {
  readonly name: string;
  readonly text: string | undefined;
  readonly before: string | undefined;
  onText(text: string | undefined): void;
}) {
  const { name, text, before, onText } = props;
  return (
    <div>
      <label>
        <span>{text === undefined ? `${name} was removed` : name}</span>
        <textarea
          rows={18}
          spellcheck={false}
          value={text ?? ""}
          disabled={text === undefined}
          onInput={(event) => onText(event.currentTarget.value)}
        />
      </label>
      <div class="pages">
        {text !== before && (
          <button type="button" onClick={() => onText(before)}>
            {before === undefined ? "Discard" : "Restore"}
          </button>
        )}
        {text !== undefined && before !== undefined && (
          <button type="button" onClick={() => onText(undefined)}>
            Remove
          </button>
        )}
        {text !== undefined && text !== before && (
          <Download name={name.split("/").at(-1) ?? name} text={text} label="Save this file" />
        )}
      </div>
    </div>
  );
}

type Run =
  | { readonly state: "idle" | "running" }
  | { readonly state: "failed"; readonly error: Error }
  | { readonly state: "done"; readonly trial: Trial; readonly draft: Draft };

function Runner(props: {
  readonly log: Log;
  readonly draft: Draft;
  readonly since: string;
  onSince(period: string): void;
}) {
  const { log, draft, since, onSince } = props;
  const [run, setRun] = useState<Run>({ state: "idle" });
  const running = useRef<AbortController>(undefined);
  useEffect(() => () => running.current?.abort(), []);
  const start = async (event: SubmitEvent) => {
    event.preventDefault();
    running.current?.abort();
    const controller = new AbortController();
    running.current = controller;
    setRun({ state: "running" });
    const next = await tryDraft(log.name, draft, controller.signal).then(
      (trial): Run => ({ state: "done", trial, draft }),
      (error: Error): Run => ({ state: "failed", error }),
    );
    if (!controller.signal.aborted) setRun(next);
  };
  const stop = () => {
    running.current?.abort();
    setRun({ state: "idle" });
  };
  const period = since === "" ? "" : ` --since ${shellWord(since)} --tenant ${shellWord(log.tenant_id)}`;
  return (
    <>
      <form class="run" onSubmit={start}>
        <label>
          <span>Also ask recorded decisions</span>
          <select value={since} onChange={(event) => onSince(event.currentTarget.value)}>
            {Object.entries(recordedPeriods).map(([value, text]) => (
              <option key={value} value={value}>
                {text}
              </option>
            ))}
          </select>
        </label>
        <button type="submit" disabled={run.state === "running"}>
          Try it
        </button>
        {run.state === "running" && (
          <button type="button" onClick={stop}>
            Stop
          </button>
        )}
      </form>
      <div aria-live="polite">
        {run.state === "running" && <p class="note">The listener tries the draft, for 30 seconds at most…</p>}
        {run.state === "failed" && <Failure error={run.error} />}
        {run.state === "done" && run.draft !== draft && !isSame(run.draft, draft) && (
          <p class="note">The draft was changed since it was tried.</p>
        )}
      </div>
      {run.state === "done" && <Tried log={log} trial={run.trial} />}
      <Command text="svc-platform-api policy test draft" />
      <Command text={`svc-platform-api policy diff --sampled in-force draft${period}`} />
    </>
  );
}

function isSame(one: Draft, other: Draft): boolean {
  const isFiles = changedFiles(one.files, other.files).length === 0;
  return isFiles && one.questions === other.questions && one.since === other.since;
}

function Tried({ log, trial }: { readonly log: Log; readonly trial: Trial }) {
  if (trial.problems !== undefined) return <Problems problems={trial.problems} />;
  return (
    <div class="tried">
      <p>
        {trial.policies} policies, revision <code>{trial.policy_revision.slice(0, 19)}…</code>
        {trial.policy_revision === trial.current_revision && " (what is in force)"}
      </p>
      <Tests tests={trial.tests} />
      <Answers answers={trial.answers} />
      <Differences diff={trial.diff} />
      {trial.recorded !== undefined && <Recorded log={log} recorded={trial.recorded} />}
    </div>
  );
}

function Problems({ problems }: { readonly problems: readonly Problem[] }) {
  return (
    <section class="proof failed" aria-label="Problems">
      <h2>The service would refuse this draft</h2>
      <ul>
        {problems.map(({ file, line, message, hint, excerpt }, index) => (
          <li key={index}>
            <span class="name">
              {file}
              {line !== undefined && `:${line}`}
            </span>{" "}
            {message} {hint !== undefined && <span class="quiet">({hint})</span>}
            {excerpt !== undefined && <pre>{excerpt}</pre>}
          </li>
        ))}
      </ul>
    </section>
  );
}

function Tests({ tests: { passed, failed, tests, unexercised } }: { readonly tests: Trial["tests"] }) {
  return (
    <section aria-label="Tests">
      <h2>Tests</h2>
      <p>
        <Result word={failed > 0 ? "failed" : "ok"} /> {passed} passed, {failed} failed
        {tests.length === 0 && ": the directory has none"}
      </p>
      <ul>
        {tests
          .filter(({ differences }) => differences.length > 0)
          .map(({ name, file, line, differences }) => (
            <li key={`${file}:${line}`}>
              <strong>{name}</strong>{" "}
              <span class="quiet">
                {file}:{line}
              </span>
              {differences.map((difference) => (
                <div key={difference} class="bad">
                  {difference}
                </div>
              ))}
            </li>
          ))}
      </ul>
      {unexercised.length > 0 && (
        <details>
          <summary>Policies that decide no test: {unexercised.length}</summary>
          <ul>
            {unexercised.map(({ set, id, file, line }) => (
              <li key={`${set}/${id}`}>
                {id}{" "}
                <span class="quiet">
                  {file}:{line}
                </span>
              </li>
            ))}
          </ul>
        </details>
      )}
    </section>
  );
}

function Answers({ answers }: { readonly answers: Trial["answers"] }) {
  return (
    <section aria-label="Answers">
      <h2>Questions</h2>
      {answers.length === 0 && <p class="note">None was asked.</p>}
      {answers.map(({ tenant, action, problems, in_force: inForce, explanation }, index) => (
        <div key={index} class="layer">
          <h3>
            <Verdict allow={explanation.allow} /> {action} for {tenant}
          </h3>
          <p>
            {explanation.reasons.join(", ") || "No policy permits it."}{" "}
            {inForce.allow !== explanation.allow && <strong>In force it is {word(inForce.allow)}.</strong>}
          </p>
          {problems.map((problem) => (
            <p key={problem} class="failure">
              {problem}
            </p>
          ))}
          <details>
            <summary>Why</summary>
            {explanation.layers.map((layer) => (
              <LayerView key={layer.layer} layer={layer} />
            ))}
          </details>
        </div>
      ))}
    </section>
  );
}

function word(allow: boolean): string {
  return allow ? "ALLOW" : "DENY";
}

function Differences({ diff: { changes, asked, summary, ways } }: { readonly diff: Trial["diff"] }) {
  return (
    <section aria-label="Differences">
      <h2>Differences from what is in force</h2>
      {summary.length === 0 ? (
        <p class="note">The files say the same.</p>
      ) : (
        <ul>
          {summary.map(({ set, id, change, lines }) => (
            <li key={`${set}/${id}`}>
              <span class="name">{set === undefined ? `manifest: ${id}` : `${set}/${id}`}</span> is {change}
              {lines.length > 0 && <pre>{lines.join("\n")}</pre>}
            </li>
          ))}
        </ul>
      )}
      <p>
        {asked.toLocaleString("en")} questions were asked on both sides: {changes} {changes === 1 ? "way" : "ways"} in
        which they are decided differently. Others may be, too: this is no proof.
      </p>
      {ways.map(({ tenants, actions, example, ...way }, index) => (
        <WayView key={index} way={way} title={`${actions.join(", ")} for ${tenants.map(tenantName).join(", ")}`}>
          <details>
            <summary>Example</summary>
            <pre>{JSON.stringify(example, undefined, 2)}</pre>
          </details>
        </WayView>
      ))}
    </section>
  );
}

/** Stands for all tenants that the manifest does not name. */
function tenantName(tenant: string): string {
  return tenant === "any-other-tenant" ? "any other tenant" : tenant;
}

function WayView(props: { readonly way: Way; readonly title: string; readonly children: ComponentChildren }) {
  const { kind, before, after } = props.way;
  return (
    <div class="policy">
      <h3>
        {kind === "reasons" ? "the same, for other reasons" : kind.replaceAll("_", " ")}: {props.title}
      </h3>
      {[["was", before] as const, ["is", after] as const].map(([when, { allow, reasons }]) => (
        <p key={when}>
          <span class="quiet">{when}</span> <Verdict allow={allow} /> {reasons.join(", ") || "no policy"}
        </p>
      ))}
      {props.children}
    </div>
  );
}

function Recorded({ log, recorded }: { readonly log: Log; readonly recorded: NonNullable<Trial["recorded"]> }) {
  const { compared, erased, not_askable, not_looked_up, cut, ways } = recorded;
  const left = erased + not_askable + not_looked_up;
  return (
    <section aria-label="Recorded decisions">
      <h2>Recorded decisions of {log.tenant_id}</h2>
      <p>
        {compared.toLocaleString("en")} were asked again{cut && ", the newest of the period"}.{" "}
        {ways.length === 0 && "All come out the same."}
        {left > 0 && ` ${left} cannot be asked: erased, or without what the policies read.`}
      </p>
      {ways.map(({ count, example, ...way }, index) => (
        <WayView key={index} way={way} title={`${count.toLocaleString("en")} decisions`}>
          <a href={paths.record(log.name, example.decision_id)}>The newest of them</a>
        </WayView>
      ))}
    </section>
  );
}
