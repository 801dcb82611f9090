import { useState } from "preact/hooks";
import { checkpointOf, type Log, metricsText, readiness } from "../api.ts";
import { useLoaded, useTitle } from "../hooks.ts";
import { Command, Facts, grouped, Result, Show, useSession } from "../parts.tsx";
import { shellWord } from "../query.ts";
import { verifyCheckpoint } from "../verify.ts";

export function SystemPage() {
  useTitle("System");
  const { logs } = useSession();
  return (
    <>
      <h1>System</h1>
      <Ready />
      <h2>Logs</h2>
      {logs.map((log) => (
        <Head key={log.name} log={log} />
      ))}
      <Metrics />
    </>
  );
}

function Ready() {
  const loaded = useLoaded(() => readiness(), []);
  return (
    <section>
      <h2>Readiness</h2>
      <Show loaded={loaded} what="readiness">
        {({ status, checks }) => (
          <>
            <p>
              <Result word={status} />
            </p>
            <Facts
              pairs={checks.map(({ name, status: state, reason }) => [
                name.replaceAll("_", " "),
                <>
                  <Result word={state} /> {reason}
                </>,
              ])}
            />
          </>
        )}
      </Show>
      <Command text="svc-platform-api doctor" />
    </section>
  );
}

/** The newest signed state of a log, verified here. */
function Head({ log }: { readonly log: Log }) {
  const loaded = useLoaded(async () => verifyCheckpoint(await checkpointOf(log.name), log.verifier_keys), [log.name]);
  return (
    <section class={`proof ${loaded.state}`} aria-label={log.tenant_id}>
      <h3 class="name">{log.tenant_id}</h3>
      <Show loaded={loaded} what="the checkpoint">
        {({ origin, size, root }) => (
          <Facts
            pairs={[
              ["Origin", origin],
              ["Signed size", `${grouped(size)} records`],
              ["Root", <code>{root}</code>],
              ["Keys", log.verifier_keys.map((key) => <code key={key}>{key}</code>)],
            ]}
          />
        )}
      </Show>
      <Command text={`svc-platform-api ledger verify --tenant ${shellWord(log.tenant_id)}`} />
    </section>
  );
}

export interface Sample {
  readonly name: string;
  readonly labels: string;
  readonly value: string;
  readonly help: string;
}

/** Samples of the Prometheus text format, without the buckets of histograms. */
export function samplesIn(text: string): readonly Sample[] {
  const helps = new Map<string, string>();
  const samples: Sample[] = [];
  for (const line of text.split("\n")) {
    const [, helped, help] = /^# HELP (\S+) (.*)$/.exec(line) ?? [];
    if (helped !== undefined) helps.set(helped, help ?? "");
    const [, name, labels = "", value] = /^([a-zA-Z_:][\w:]*)(\{.*\})? (\S+)$/.exec(line) ?? [];
    if (name === undefined || value === undefined || name.endsWith("_bucket")) continue;
    samples.push({ name, labels, value, help: helps.get(name) ?? helps.get(name.replace(/_(sum|count)$/, "")) ?? "" });
  }
  return samples;
}

function Metrics() {
  const [wanted, setWanted] = useState("svc_");
  const loaded = useLoaded(() => metricsText(), []);
  return (
    <section>
      <h2>Metrics</h2>
      <label>
        <span>Names that contain</span>
        <input type="search" value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />
      </label>
      <Show loaded={loaded} what="metrics">
        {(text) => {
          const samples = samplesIn(text).filter(({ name }) => name.includes(wanted.trim()));
          return (
            <div class="wide">
              <table class="short">
                <caption>{samples.length} values of this process, as it exposes them to Prometheus</caption>
                <tbody>
                  {samples.map(({ name, labels, value, help }) => (
                    <tr key={name + labels}>
                      <th scope="row" title={help}>
                        <code>
                          {name}
                          {labels}
                        </code>
                      </th>
                      <td class="number">
                        {Number.isFinite(Number(value)) ? Number(Number(value).toPrecision(12)) : value}
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          );
        }}
      </Show>
    </section>
  );
}
