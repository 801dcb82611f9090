import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { type Counted, count, type Log } from "../api.ts";
import { useLoaded, useTitle } from "../hooks.ts";
import { Command, paths, Show, useLog } from "../parts.tsx";
import { searchCommand } from "../query.ts";
import { NoLog } from "./no-log.tsx";

const days = 30;
const period = { last: `${days}d` };

export function OverviewPage({ log: name }: { readonly log: string }) {
  useTitle("Overview");
  const log = useLog(name);
  return log === undefined ? <NoLog /> : <Overview key={name} log={log} />;
}

function Overview({ log }: { readonly log: Log }) {
  const loaded = useLoaded((signal) => overviewOf(log.name, signal), [log.name]);
  return (
    <>
      <h1>
        Decisions of <span class="name">{log.tenant_id}</span>
      </h1>
      <Show loaded={loaded} what="counts">
        {({ allowed, denied, reasons, principals }) => (
          <>
            <div class="tiles">
              <Tile log={log} name="Allowed" counted={allowed} box={`outcome:allow last:${days}d`} />
              <Tile log={log} name="Denied" counted={denied} box={`outcome:deny last:${days}d`} />
            </div>
            <Chart days={daysTo(new Date(), days)} allowed={allowed} denied={denied} />
            <div class="columns">
              <Top log={log} title="Denied because of" word="reason" counted={reasons} />
              <Top log={log} title="Denied to" word="principal" counted={principals} />
            </div>
          </>
        )}
      </Show>
      <Command text={`${searchCommand(log.tenant_id, { outcome: "deny", ...period })} --count-by day`} />
    </>
  );
}

async function overviewOf(log: string, signal: AbortSignal) {
  const denials = { outcome: "deny", ...period };
  // One after the other: the listener runs two searches at once, for everyone.
  const allowed = await count(log, { outcome: "allow", ...period }, "day", signal);
  const denied = await count(log, denials, "day", signal);
  const reasons = await count(log, denials, "reason", signal);
  return { allowed, denied, reasons, principals: await count(log, denials, "principal", signal) };
}

function Tile(props: { readonly log: Log; readonly name: string; readonly counted: Counted; readonly box: string }) {
  return (
    <a class="tile" href={paths.ledger(props.log.name, props.box)}>
      <strong>{props.counted.records.toLocaleString("en")}</strong>
      <span>
        {props.name} in {days} days
      </span>
    </a>
  );
}

function Top(props: { readonly log: Log; readonly title: string; readonly word: string; readonly counted: Counted }) {
  const { log, title, word, counted } = props;
  const unexplained = word === "reason" && counted.values.length === 0 && counted.records > 0;
  return (
    <section>
      <h2>{title}</h2>
      {counted.records === 0 && <p class="note">Nothing was denied.</p>}
      {unexplained && <p class="note">No policy permitted it: none forbade it.</p>}
      <table class="short">
        <tbody>
          {counted.values.slice(0, 10).map(({ value, records }) => (
            <tr key={value}>
              <th scope="row">
                <a href={paths.ledger(log.name, `outcome:deny last:${days}d ${word}:${JSON.stringify(value)}`)}>
                  {value}
                </a>
              </th>
              <td class="number">{records}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** The days up to this one, in UTC, the oldest first. */
export function daysTo(now: Date, number: number): readonly string[] {
  return Array.from({ length: number }, (_, back) =>
    new Date(now.getTime() - (number - 1 - back) * 86_400_000).toISOString().slice(0, 10),
  );
}

/** Values of the days, 0 for a day without any. */
export function valuesOf(names: readonly string[], { values }: Counted): number[] {
  const byDay = new Map(values.map(({ value, records }) => [value, records]));
  return names.map((day) => byDay.get(day) ?? 0);
}

function Chart(props: { readonly days: readonly string[]; readonly allowed: Counted; readonly denied: Counted }) {
  const place = useRef<HTMLDivElement>(null);
  const [allowed, denied] = [valuesOf(props.days, props.allowed), valuesOf(props.days, props.denied)];
  useEffect(() => {
    const element = place.current;
    if (element === null) return undefined;
    const draw = () => plot(element, props.days, allowed, denied);
    let chart = draw();
    const redraw = () => {
      chart.destroy();
      chart = draw();
    };
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    addEventListener("resize", redraw);
    scheme.addEventListener("change", redraw);
    return () => {
      removeEventListener("resize", redraw);
      scheme.removeEventListener("change", redraw);
      chart.destroy();
    };
  }, [props.allowed, props.denied]);
  return (
    <figure>
      <div ref={place} aria-hidden="true" />
      <figcaption>
        Allowed and denied decisions by day, in UTC.
        <details>
          <summary>As a table</summary>
          <table class="short">
            <thead>
              <tr>
                <th scope="col">Day</th>
                <th scope="col">Allowed</th>
                <th scope="col">Denied</th>
              </tr>
            </thead>
            <tbody>
              {props.days.map((day, index) => (
                <tr key={day}>
                  <th scope="row">{day}</th>
                  <td class="number">{allowed[index]}</td>
                  <td class="number">{denied[index]}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </details>
      </figcaption>
    </figure>
  );
}

/** In seconds. */
const halfDay = 43_200;

/** Month and day of a time in seconds. */
function dayOf(seconds: number): string {
  return new Date(seconds * 1_000).toISOString().slice(5, 10);
}

function bars(align: -1 | 1): Pick<uPlot.Series, "paths"> {
  const paths = uPlot.paths.bars?.({ size: [0.4, 40], align });
  return paths === undefined ? {} : { paths };
}

function plot(element: HTMLElement, names: readonly string[], allowed: number[], denied: number[]): uPlot {
  const style = getComputedStyle(element);
  const color = (name: string) => style.getPropertyValue(name);
  // Side by side: one left of the day, one right of it.
  const series = (label: string, tone: string, align: -1 | 1): uPlot.Series => ({
    label,
    stroke: color(tone),
    fill: color(tone),
    width: 0,
    points: { show: false },
    ...bars(align),
  });
  const axis: uPlot.Axis = {
    stroke: color("--quiet"),
    grid: { stroke: color("--line"), width: 1 },
    ticks: { stroke: color("--line"), width: 1 },
  };
  return new uPlot(
    {
      width: element.clientWidth,
      height: 220,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1_000), "UTC"),
      legend: { live: false },
      series: [{ label: "Day" }, series("Allowed", "--good", -1), series("Denied", "--bad", 1)],
      axes: [
        { ...axis, values: (_, splits) => splits.map(dayOf) },
        { ...axis, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 1e5, 1e6] },
      ],
      scales: {
        x: { range: (_, min, max) => [min - halfDay, max + halfDay] },
        y: { range: (_, _min, max) => [0, Math.max(1, max * 1.1)] },
      },
    },
    [names.map((day) => Date.parse(day) / 1_000), allowed, denied],
    element,
  );
}
