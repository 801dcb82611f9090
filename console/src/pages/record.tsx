import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import {
  type Explained,
  type ExplainedPolicy,
  explanationOf,
  type Layer,
  type Log,
  newestRows,
  Refusal,
  recordOf,
} from "../api.ts";
import { useLoaded, useTitle } from "../hooks.ts";
import { ArtifactLink, Command, Facts, Json, paths, Result, Rows, Show, Time, useLog } from "../parts.tsx";
import { shellWord } from "../query.ts";
import { type GivenReceipt, keysIn, type LedgerRecord, objectOf, type Verified, verifyRecord } from "../verify.ts";
import { NoLog } from "./no-log.tsx";

export function RecordPage({ log: name, id }: { readonly log: string; readonly id: string }) {
  useTitle("Record");
  const log = useLog(name);
  return log === undefined ? <NoLog /> : <Fetched key={id} log={log} id={id} />;
}

function Fetched({ log, id }: { readonly log: Log; readonly id: string }) {
  const loaded = useLoaded(() => recordOf(log.name, id), [log.name, id]);
  return (
    <Show loaded={loaded} what="the record">
      {({ receipt }) =>
        receipt === undefined ? <Erased log={log} id={id} /> : <Checked log={log} id={id} receipt={receipt} />
      }
    </Show>
  );
}

function Erased({ log, id }: { readonly log: Log; readonly id: string }) {
  return (
    <>
      <h1>This record was erased</h1>
      <p>Its leaf is still in the log. What cites it:</p>
      <Citing log={log} id={id} />
    </>
  );
}

/** Shows only what the receipt proves: the record is read from the receipt's bytes after they verified. */
function Checked({ log, id, receipt }: { readonly log: Log; readonly id: string; readonly receipt: GivenReceipt }) {
  const [own, setOwn] = useState("");
  const keys = own === "" ? log.verifier_keys : keysIn(own);
  const loaded = useLoaded(() => verifyRecord(id, receipt, keys), [id, receipt, own]);
  return (
    <>
      {loaded.state === "done" && <ProvenRecord log={log} record={loaded.value.record} />}
      {loaded.state === "failed" && <h1>This record is not shown</h1>}
      <section class={`proof ${loaded.state}`} aria-label="Receipt">
        <h2>Receipt</h2>
        <Show loaded={loaded} what="the receipt">
          {(proven) => <Proof proven={proven} isOwn={own !== ""} />}
        </Show>
        {loaded.state === "failed" && (
          <p>
            The receipt does not verify, so nothing that it claims is shown. If the log got another key since you signed
            in, sign in again. Otherwise report this to the operator of the log.
          </p>
        )}
        <form
          onSubmit={(event) => {
            event.preventDefault();
            setOwn(String(new FormData(event.currentTarget).get("key")).trim());
          }}
        >
          <label>
            <span>Verify by a key of your own</span>
            <input name="key" spellcheck={false} autocomplete="off" placeholder="origin+hash+key, from the operator" />
          </label>
          <button type="submit">Verify</button>
        </form>
        <p>
          <Download
            name={`receipt-${id}.json`}
            text={`${JSON.stringify(receipt, undefined, 2)}\n`}
            label="Save the receipt"
          />
        </p>
        <Command text={`svc-platform-api ledger receipt verify receipt-${id}.json --key ${shellWord(keys[0] ?? "")}`} />
      </section>
    </>
  );
}

function Proof({ proven, isOwn }: { readonly proven: Verified; readonly isOwn: boolean }) {
  return (
    <>
      <p>
        <Result word="ok" /> Verified in this browser: the log holds exactly this record.{" "}
        {isOwn
          ? "The key is the one that you gave."
          : "The key came from this listener: compare it with the one that the operator gave you over another channel."}
      </p>
      <Facts
        pairs={[
          ["Log", proven.origin],
          ["Leaf", `${proven.leafIndex} of ${proven.size}`],
          ["Root", <code>{proven.root}</code>],
        ]}
      />
    </>
  );
}

export function Download(props: { readonly name: string; readonly text: string; readonly label: string }) {
  const { name, text, label } = props;
  const save = () => {
    const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    const link = document.createElement("a");
    link.href = url;
    link.download = name;
    link.click();
    URL.revokeObjectURL(url);
  };
  return (
    <button type="button" onClick={save}>
      {label}
    </button>
  );
}

function ProvenRecord({ log, record }: { readonly log: Log; readonly record: LedgerRecord }) {
  const { request, outcome, caller } = record;
  const isDecision = record.kind === "decision";
  const workload = objectOf(request.workload);
  const resource = objectOf(request.resource);
  const decisionId = textOf(request.decision_id);
  return (
    <>
      <h1>
        {isDecision ? <Verdict allow={outcome.allow === true} /> : <Kind record={record} />}
        {textOf(request.operation) ?? textOf(request.event_type)}
        {textOf(resource.id) !== undefined && <span class="name"> {textOf(resource.id)}</span>}
      </h1>
      <Facts
        pairs={[
          ["When", <Time at={record.recorded_at} />],
          ["Who", <a href={paths.principal(log.name, caller.principal_id)}>{caller.principal_id}</a>],
          ["Subject", caller.subject === caller.principal_id ? undefined : caller.subject],
          ["Workload", textsOf(Object.values(workload)).join(", ")],
          ["What", textsOf([resource.kind, resource.id]).join(" ")],
          ["Purpose", textOf(request.purpose)],
          ["Labels", textsOf(request.labels).join(", ")],
          ["Artifact", <ArtifactLink log={log.name} digest={textOf(request.artifact_digest)} cid={cidOf(record)} />],
          ["Cites", decisionId && <a href={paths.record(log.name, decisionId)}>{decisionId}</a>],
          ["Citation", textOf(outcome.citation)],
          ["Reason", textOf(request.reason)],
        ]}
      />
      {isDecision && <Outcome outcome={outcome} />}
      {isDecision && <Explanation log={log} record={record} />}
      <section>
        <h2>{isDecision ? "What cites it" : "What belongs to it"}</h2>
        <Citing
          log={log}
          id={isDecision ? record.record_id : (decisionId ?? record.record_id)}
          except={record.record_id}
        />
      </section>
      <details>
        <summary>The whole record</summary>
        <Json value={record} />
      </details>
    </>
  );
}

export function Verdict({ allow }: { readonly allow: boolean }) {
  return <span class={`verdict ${allow ? "good" : "bad"}`}>{allow ? "ALLOW" : "DENY"} </span>;
}

function Kind({ record }: { readonly record: LedgerRecord }) {
  const { kind, outcome, request } = record;
  const said = kind === "registration" ? (outcome.accepted === true ? "accepted" : "refused") : textOf(request.outcome);
  return (
    <>
      {kind.replaceAll("_", " ")} {said !== undefined && <Result word={said} />}{" "}
    </>
  );
}

/** What was recorded of the decision itself. */
function Outcome({ outcome }: { readonly outcome: LedgerRecord["outcome"] }) {
  const reasons = textsOf(outcome.reasons);
  const obligations = Array.isArray(outcome.obligations) ? outcome.obligations.map(objectOf) : [];
  const guidance = Object.entries(objectOf(outcome.guidance));
  const why = reasons.length > 0 ? reasons.join(", ") : "No policy permits it.";
  return (
    <section>
      <h2>Why</h2>
      <Facts
        pairs={[
          ["Decided by", why],
          ["Alerts", textsOf(outcome.alerts).join(", ")],
          ["Policy revision", <code>{String(outcome.policy_revision)}</code>],
        ]}
      />
      {obligations.length > 0 && (
        <>
          <h3>Obligations</h3>
          <ul>
            {obligations.map((obligation, index) => (
              <li key={index}>
                {String(obligation.id)} <code>{JSON.stringify(obligation.parameters ?? {})}</code>
              </li>
            ))}
          </ul>
        </>
      )}
      <details>
        <summary>Guidance for the workload</summary>
        <Facts pairs={guidance.map(([name, value]) => [name.replaceAll("_", " "), shown(value)] as const)} />
      </details>
    </section>
  );
}

function Explanation({ log, record }: { readonly log: Log; readonly record: LedgerRecord }) {
  const loaded = useLoaded(
    () =>
      explanationOf(log.name, record.record_id).catch((error: unknown) => {
        // Of what was erased there is none, nor for a tenant's credentials: policies of the platform are not theirs.
        if (error instanceof Refusal && error.status === 404) return error.message;
        throw error;
      }),
    [log.name, record.record_id],
  );
  const command = `svc-platform-api policy explain --tenant ${shellWord(log.tenant_id)} --decision ${record.record_id}`;
  return (
    <section aria-label="Explanation">
      <h2>Explanation</h2>
      <Show loaded={loaded} what="the explanation">
        {(explained) =>
          typeof explained === "string" ? (
            <p class="note">There is none: {explained}.</p>
          ) : (
            <Evaluated explained={explained} recorded={record.outcome.allow === true} />
          )
        }
      </Show>
      <Command text={command} />
    </section>
  );
}

function Evaluated({ explained, recorded }: { readonly explained: Explained; readonly recorded: boolean }) {
  const { explanation, recorded_revision, current_revision } = explained;
  if (explanation === undefined)
    return (
      <p class="note">
        The policies in force read the artifact's registrations, and this decision did not look them up: it cannot be
        evaluated again under them. The command evaluates it under its own.
      </p>
    );
  const isSame = recorded_revision === current_revision;
  return (
    <>
      <p>
        {isSame ? (
          "Evaluated again under its own policies, which are in force:"
        ) : (
          <>
            Other policies are in force now (<code>{current_revision.slice(0, 19)}…</code>). Under them:
          </>
        )}{" "}
        <Verdict allow={explanation.allow} />
        {isSame && explanation.allow !== recorded && <strong>This is not what was recorded.</strong>}
      </p>
      <p>
        <span class="label">Inputs read</span> {explanation.inputs.join(", ") || "none"}
      </p>
      {explanation.layers.map((layer) => (
        <LayerView key={layer.layer} layer={layer} />
      ))}
      {explanation.layers.length === 0 && <p class="note">The tenant has no policy set, so everything is denied.</p>}
    </>
  );
}

export function LayerView({ layer }: { readonly layer: Layer }) {
  const decided = layer.policies.filter((policy) => policy.decided);
  const others = layer.policies.filter((policy) => !policy.decided);
  return (
    <div class="layer">
      <h3>
        {layer.layer} <span class="quiet">(set {layer.set})</span> <Result word={layer.outcome} />
      </h3>
      {decided.length === 0 && <p class="note">No policy decided, so this layer denies.</p>}
      {decided.map((policy) => (
        <PolicyView key={policy.id} policy={policy}>
          <Inputs inputs={policy.inputs} />
        </PolicyView>
      ))}
      {others.length > 0 && (
        <details open={decided.length === 0}>
          <summary>{others.length} did not decide</summary>
          {others.map((policy) => (
            <PolicyView key={policy.id} policy={policy}>
              {policy.unmet.map((unmet, index) => (
                <div key={index} class="unmet">
                  needs {unmet.needs}
                  {unmet.state === "unknown" && <span class="quiet"> (not evaluated)</span>}
                  <Inputs inputs={unmet.inputs} />
                </div>
              ))}
            </PolicyView>
          ))}
        </details>
      )}
    </div>
  );
}

function PolicyView(props: { readonly policy: ExplainedPolicy; readonly children: ComponentChildren }) {
  const { id, file, line, effect, description } = props.policy;
  return (
    <div class="policy">
      <Result word={effect === "permit" ? "permit" : "forbid"} /> <strong>{id}</strong>{" "}
      <span class="quiet">
        {file}:{line}
      </span>
      {description !== undefined && <p>{description}</p>}
      {props.children}
    </div>
  );
}

function Inputs({ inputs }: { readonly inputs: Readonly<Record<string, unknown>> }) {
  const pairs = Object.entries(inputs).map(
    ([name, value]) => [name, value === null ? <em>absent</em> : <code>{JSON.stringify(value)}</code>] as const,
  );
  return pairs.length === 0 ? null : <Facts pairs={pairs} />;
}

/** The records that cite a decision: registrations, and events, which are its evidence. */
function Citing({ log, id, except }: { readonly log: Log; readonly id: string; readonly except?: string }) {
  const loaded = useLoaded((signal) => newestRows(log.name, { decision_id: id, limit: "100" }, signal), [log.name, id]);
  return (
    <Show loaded={loaded} what="what cites it">
      {({ found, next }) => {
        const others = found.filter(({ record_id }) => record_id !== except);
        if (others.length === 0) return <p class="note">Nothing.</p>;
        return (
          <>
            <Rows log={log.name} rows={others} />
            {next !== undefined && <a href={paths.ledger(log.name, `decision:${id}`)}>More</a>}
          </>
        );
      }}
    </Show>
  );
}

function shown(value: unknown): string {
  return Array.isArray(value) ? value.join(", ") : typeof value === "object" ? JSON.stringify(value) : String(value);
}

function cidOf({ request, outcome }: LedgerRecord): string | undefined {
  return textOf(request.artifact_cid) ?? textOf(outcome.artifact_cid) ?? textOf(request.artifact_merkle_root_cid);
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

function textsOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === "string" && one !== "") : [];
}
