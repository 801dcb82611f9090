/** Plots of a report as inline SVG. Their colours are in the report's stylesheet. */
import { html, type Markup } from "../../base/markup.ts";
import { grouped } from "../../base/visible-text.ts";
import type { Counted } from "../ports/search.ts";

type Counts = Counted["values"];

const width = 560;
/** Around the columns: room for the numbers at the left and the names below. */
const [left, top, columnsHeight] = [44, 18, 130];
const barHeight = 24;
const nameWidth = 210;
const maxNameLength = 30;

/** A round number that is the least at or above the greatest value. */
function ceilingOf(counts: Counts): number {
  const most = counts.reduce((so, { records }) => Math.max(so, records), 1);
  const magnitude = 10 ** Math.floor(Math.log10(most));
  return magnitude * ([1, 2, 5].find((step) => step * magnitude >= most) ?? 10);
}

const place = (value: number) => value.toFixed(1);

/**
 * Columns in the order of time.
 * @param marks names of columns with a dashed line at their left
 */
export function columnsPlot(title: string, counts: Counts, marks: ReadonlySet<string>): Markup {
  const most = ceilingOf(counts);
  const step = (width - left) / Math.max(1, counts.length);
  const yOf = (records: number) => top + columnsHeight * (1 - records / most);
  // As many names as fit.
  const every = Math.ceil(76 / step);
  const grid = [0, most / 2, most]
    .filter(Number.isInteger)
    .map(
      (value) =>
        html`<line class="grid" x1="${left}" x2="${width}" y1="${place(yOf(value))}" y2="${place(yOf(value))}"/><text x="${left - 6}" y="${place(yOf(value) + 4)}" text-anchor="end">${grouped(value)}</text>`,
    );
  const columns = counts.map(({ value: name, records }, at) => {
    const x = left + at * step;
    const bar = html`<rect class="bar" x="${place(x + step * 0.1)}" y="${place(yOf(records))}" width="${place(step * 0.8)}" height="${place(top + columnsHeight - yOf(records))}"><title>${name}: ${grouped(records)}</title></rect>`;
    const mark = html`<line class="mark" x1="${place(x)}" x2="${place(x)}" y1="${top - 12}" y2="${top + columnsHeight}"/>`;
    const label = html`<text x="${place(x)}" y="${top + columnsHeight + 18}">${name}</text>`;
    const isNamed = at % every === 0 && x + 70 <= width;
    return [...(records > 0 ? [bar] : []), ...(marks.has(name) ? [mark] : []), ...(isNamed ? [label] : [])];
  });
  const height = top + columnsHeight + 28;
  return html`<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${title}">${grid}${columns.flat()}</svg>`;
}

/** Bars with their names, from the greatest on. */
export function barsPlot(title: string, counts: Counts): Markup {
  const most = counts[0]?.records ?? 1;
  const bars = counts.map(({ value: name, records }, at) => {
    const length = ((width - nameWidth - 60) * records) / most;
    const y = at * barHeight;
    const shown = name.length > maxNameLength ? `${name.slice(0, maxNameLength - 1)}…` : name;
    return html`<text x="0" y="${y + 16}">${shown}<title>${name}</title></text><rect class="bar" x="${nameWidth}" y="${y + 4}" width="${place(length)}" height="16"/><text x="${place(nameWidth + length + 6)}" y="${y + 16}">${grouped(records)}</text>`;
  });
  const height = Math.max(1, counts.length) * barHeight;
  return html`<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${title}">${bars}</svg>`;
}
