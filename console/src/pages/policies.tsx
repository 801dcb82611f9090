import { type Counted, count, type Log } from "../api.ts";
import { useFragment, useLoaded, useTitle } from "../hooks.ts";
import { Command, Facts, grouped, paths, Result, Show, shortened, Time, useLog } from "../parts.tsx";
import { changedFiles, type Policies, type Policy, policiesOf, reasonOf, type Texts, textsOf } from "../policies.ts";
import { searchCommand } from "../query.ts";
import { NoLog } from "./no-log.tsx";

const periods = { "7d": "the last 7 days", "30d": "the last 30 days", "365d": "the last 365 days" };

export function PoliciesPage({ log: name }: { readonly log: string }) {
  useTitle("Policies");
  const log = useLog(name);
  return log === undefined ? <NoLog /> : <PoliciesOfLog key={name} log={log} />;
}

function PoliciesOfLog({ log }: { readonly log: Log }) {
  const [members, write] = useFragment();
  const last = members.get("last") ?? "30d";
  const loaded = useLoaded(() => policiesOf(log.name), [log.name]);
  return (
    <>
      <h1>
        Policies of <span class="name">{log.tenant_id}</span>
      </h1>
      <Show loaded={loaded} what="policies">
        {(policies) => (
          <>
            <Facts pairs={[["In force", <code>{policies.current_revision}</code>]]} />
            {isWhole(policies) ? (
              <p>
                <a href={paths.playground(log.name)}>Playground</a>: change a copy of the files, test it, and see what
                it would decide differently.
              </p>
            ) : (
              <p class="note">These are the policies of the tenant's own set. The platform's are for operators.</p>
            )}
            <Decisions
              log={log}
              policies={policies.policies}
              last={last}
              onPeriod={(period) => write({ last: period, revision: members.get("revision") ?? "" })}
            />
            <Revisions log={log} policies={policies} last={last} shown={members.get("revision")} />
          </>
        )}
      </Show>
    </>
  );
}

/** Operators see the platform's policies, too. */
function isWhole({ policies }: Policies): boolean {
  return policies.some(({ layer }) => layer === "platform");
}

function Decisions(props: {
  readonly log: Log;
  readonly policies: readonly Policy[];
  readonly last: string;
  onPeriod(period: string): void;
}) {
  const { log, policies, last, onPeriod } = props;
  const loaded = useLoaded((signal) => count(log.name, { last }, "reason", signal), [log.name, last]);
  return (
    <section>
      <h2>Decisions by policy</h2>
      <div class="filters">
        <label>
          <span>Period</span>
          <select value={last} onChange={(event) => onPeriod(event.currentTarget.value)}>
            {!Object.hasOwn(periods, last) && <option value={last}>{last}</option>}
            {Object.entries(periods).map(([period, text]) => (
              <option key={period} value={period}>
                {text}
              </option>
            ))}
          </select>
        </label>
      </div>
      <Show loaded={loaded} what="decisions">
        {(counted) => <Counts log={log} policies={policies} counted={counted} last={last} />}
      </Show>
      <Command text={`${searchCommand(log.tenant_id, { last })} --count-by reason`} />
    </section>
  );
}

/** Decisions of each policy, the most first, then those without any, and reasons that no policy in force has. */
export function countedPolicies(policies: readonly Policy[], { values }: Counted) {
  const counts = new Map(values.map(({ value, records }) => [value, records]));
  const rows = policies.map((policy) => ({ policy, decisions: counts.get(reasonOf(policy)) ?? 0 }));
  const known = new Set(policies.map(reasonOf));
  return {
    rows: rows.sort((one, other) => other.decisions - one.decisions),
    others: values.filter(({ value }) => !known.has(value)),
  };
}

function Counts(props: {
  readonly log: Log;
  readonly policies: readonly Policy[];
  readonly counted: Counted;
  readonly last: string;
}) {
  const { log, policies, counted, last } = props;
  const { rows, others } = countedPolicies(policies, counted);
  const linkOf = (reason: string) => paths.ledger(log.name, `reason:${JSON.stringify(reason)} last:${last}`);
  const never = rows.filter(({ decisions }) => decisions === 0).length;
  return (
    <>
      <p>
        {never === 0
          ? `Each of ${rows.length} policies in force decided something.`
          : `${never} of ${rows.length} policies in force never decided in this period.`}
      </p>
      <div class="wide">
        <table class="rows">
          <thead>
            <tr>
              {["Policy", "Effect", "Says", "Where", "Decisions"].map((name) => (
                <th key={name} scope="col" class={name === "Decisions" ? "number" : ""}>
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map(({ policy, decisions }) => (
              <tr key={reasonOf(policy)}>
                <td data-name="Policy">
                  <span>
                    {decisions > 0 ? (
                      <a href={linkOf(reasonOf(policy))}>{reasonOf(policy)}</a>
                    ) : (
                      <span>{reasonOf(policy)}</span>
                    )}
                  </span>
                </td>
                <td data-name="Effect">
                  <Result word={policy.effect} />
                </td>
                <td data-name="Says">
                  <span>{policy.description}</span>
                </td>
                <td data-name="Where">
                  <span class="quiet place">
                    {policy.file}:{policy.line}
                  </span>
                </td>
                <td data-name="Decisions" class="number">
                  <span>{decisions === 0 ? "never" : grouped(decisions)}</span>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {others.length > 0 && (
        <details>
          <summary>Other reasons ({others.length}): no policy, earlier ones, the platform's, or the service's</summary>
          <ul>
            {others.map(({ value, records }) => (
              <li key={value}>
                <a href={linkOf(value)}>{value}</a> {grouped(records)}
              </li>
            ))}
          </ul>
        </details>
      )}
    </>
  );
}

function Revisions(props: {
  readonly log: Log;
  readonly policies: Policies;
  readonly last: string;
  readonly shown: string | null;
}) {
  const { log, policies, last, shown } = props;
  const { revisions, current_revision: current, leaves } = policies;
  const wanted = shown ?? current;
  return (
    <section>
      <h2>Revisions</h2>
      <p class="quiet">
        Revisions that decided, in the newest {grouped(leaves.to - leaves.from)} of {grouped(leaves.to)} records. A
        revision is in force from its load on; what shows here is its first decision.
      </p>
      <div class="wide">
        <table class="rows">
          <thead>
            <tr>
              {["Revision", "First decision (UTC)", "Last decision (UTC)", "Decisions"].map((name) => (
                <th key={name} scope="col" class={name === "Decisions" ? "number" : ""}>
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {revisions.map(({ revision, first_at, last_at, decisions }) => (
              <tr key={revision}>
                <td data-name="Revision">
                  <span>
                    <a href={paths.policies(log.name, { last, revision })} title={revision}>
                      <code>{shortened(revision)}</code>
                    </a>{" "}
                    {revision === current && <strong>in force</strong>}
                  </span>
                </td>
                <td data-name="First decision">
                  <Time at={first_at} />
                </td>
                <td data-name="Last decision">
                  <Time at={last_at} />
                </td>
                <td data-name="Decisions" class="number">
                  <span>{grouped(decisions)}</span>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {revisions.every(({ revision }) => revision !== current) && (
        <p class="note">No decision was recorded under the revision in force yet.</p>
      )}
      <Text key={wanted} log={log} revision={wanted} current={current} />
    </section>
  );
}

function Text(props: { readonly log: Log; readonly revision: string; readonly current: string }) {
  const { log, revision, current } = props;
  const loaded = useLoaded(async () => {
    const texts = await textsOf(log.name, revision);
    return { texts, inForce: revision === current ? texts : await textsOf(log.name, current) };
  }, [log.name, revision, current]);
  return (
    <section aria-label="Text" class="texts">
      <h2>Text {revision === current ? "in force" : <>of {revision.slice(0, 19)}…</>}</h2>
      <Show loaded={loaded} what="the text">
        {({ texts, inForce }) => (
          <>
            {texts.layers.map(({ layer, set, files }) => {
              const changed = changedFiles(files, filesOf(inForce, layer));
              const gone = changed.filter((file) => !Object.hasOwn(files, file));
              return (
                <div key={layer}>
                  <h3>
                    {layer} <span class="quiet">(set {set})</span>
                  </h3>
                  {Object.entries(files).map(([file, text]) => (
                    <details key={file} open={changed.includes(file)}>
                      <summary>
                        {set}/{file} {changed.includes(file) && <strong>differs from what is in force</strong>}
                      </summary>
                      <pre>{text}</pre>
                    </details>
                  ))}
                  {gone.length > 0 && <p class="note">In force there are also: {gone.join(", ")}</p>}
                </div>
              );
            })}
          </>
        )}
      </Show>
    </section>
  );
}

function filesOf({ layers }: Texts, layer: string) {
  return layers.find((one) => one.layer === layer)?.files ?? {};
}
