/** Columns by day, with marks. The same numbers are in a table, which is what a screen reader reads. */
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import type { Counted } from "./api.ts";
import { shortened } from "./parts.tsx";

export interface ChartSeries {
  readonly name: string;
  /** Name of a colour of the stylesheet. */
  readonly tone: "--good" | "--bad" | "--warn" | "--link";
  readonly counted: Pick<Counted, "values">;
}

/** A dashed line at a time. */
export interface Mark {
  readonly at: string;
  readonly text: string;
}

/** The days of a period of so many days up to now, in UTC, the oldest first: the period has a part of that one. */
export function daysTo(now: Date, number: number): readonly string[] {
  return Array.from({ length: number + 1 }, (_, at) =>
    new Date(now.getTime() - (number - at) * 86_400_000).toISOString().slice(0, 10),
  );
}

/** Values of the days, 0 for a day without any. */
export function valuesOf(names: readonly string[], { values }: Pick<Counted, "values">): number[] {
  const byDay = new Map(values.map(({ value, records }) => [value, records]));
  return names.map((day) => byDay.get(day) ?? 0);
}

export function Chart(props: {
  readonly days: readonly string[];
  readonly series: readonly ChartSeries[];
  readonly caption: string;
  readonly marks?: readonly Mark[];
}) {
  const { days, series, caption, marks = [] } = props;
  const place = useRef<HTMLDivElement>(null);
  const columns = series.map(({ counted }) => valuesOf(days, counted));
  useEffect(() => {
    const element = place.current;
    if (element === null) return undefined;
    const draw = () => plot(element, days, series, columns, marks);
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
  }, [JSON.stringify([days, series, marks])]);
  return (
    <figure>
      <div ref={place} aria-hidden="true" />
      <figcaption>
        {caption}
        {marks.length > 0 && (
          <ul class="marks">
            {marks.map(({ at, text }) => (
              <li key={text}>
                {at.slice(0, 19).replace("T", " ")}: <code title={text}>{shortened(text)}</code>
              </li>
            ))}
          </ul>
        )}
        <details>
          <summary>As a table</summary>
          <table class="short">
            <thead>
              <tr>
                {["Day", ...series.map(({ name }) => name)].map((name) => (
                  <th key={name} scope="col">
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {days.map((day, index) => (
                <tr key={day}>
                  <th scope="row">{day}</th>
                  {columns.map((values, at) => (
                    <td key={series[at]?.name} class="number">
                      {values[index]}
                    </td>
                  ))}
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

function bars(align: -1 | 0 | 1): Pick<uPlot.Series, "paths"> {
  const paths = uPlot.paths.bars?.({ size: [0.4, 40], align });
  return paths === undefined ? {} : { paths };
}

function plot(
  element: HTMLElement,
  days: readonly string[],
  series: readonly ChartSeries[],
  columns: number[][],
  marks: readonly Mark[],
): uPlot {
  const style = getComputedStyle(element);
  const color = (name: string) => style.getPropertyValue(name);
  // Two are side by side: one left of the day, one right of it.
  const sides = series.length === 1 ? ([0] as const) : ([-1, 1] as const);
  const axis: uPlot.Axis = {
    stroke: color("--quiet"),
    grid: { stroke: color("--line"), width: 1 },
    ticks: { stroke: color("--line"), width: 1 },
  };
  const drawMarks = ({ ctx, bbox, valToPos }: uPlot) => {
    ctx.save();
    ctx.strokeStyle = color("--link");
    ctx.setLineDash([6, 4]);
    ctx.lineWidth = 2;
    for (const { at } of marks) {
      // The column of a day is around its name.
      const x = Math.round(valToPos(Date.parse(at) / 1_000 - halfDay, "x", true));
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  };
  return new uPlot(
    {
      width: element.clientWidth,
      height: 220,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1_000), "UTC"),
      legend: { live: false },
      hooks: { draw: [drawMarks] },
      series: [
        { label: "Day" },
        ...series.map(({ name, tone }, at) => ({
          label: name,
          stroke: color(tone),
          fill: color(tone),
          width: 0,
          points: { show: false },
          ...bars(sides[at] ?? 0),
        })),
      ],
      axes: [
        { ...axis, values: (_, splits) => splits.map(dayOf) },
        { ...axis, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 1e5, 1e6] },
      ],
      scales: {
        x: { range: (_, min, max) => [min - halfDay, max + halfDay] },
        y: { range: (_, _min, max) => [0, Math.max(1, max * 1.1)] },
      },
    },
    [days.map((day) => Date.parse(day) / 1_000), ...columns],
    element,
  );
}
