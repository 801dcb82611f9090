/** A report as one HTML file without scripts and external assets, for a person to read, print and file. */
import { createHash } from "node:crypto";
import { html, Markup } from "../../base/markup.ts";
import { grouped } from "../../base/visible-text.ts";
import { rowOf } from "../search/rows.ts";
import { parseCheckpoint } from "../tlog/checkpoint.ts";
import { barsPlot, columnsPlot } from "./plots.ts";
import { countsOf, type Report, templates, unitsOf } from "./report.ts";

/** Most rows of the table: more are for the CSV. */
const maxListed = 10_000;
/** Most bars of the second plot. */
const maxBars = 10;

const style = `
:root{color-scheme:light dark;--page:light-dark(#fff,#14171a);--text:light-dark(#16191d,#e6e9ec);
--quiet:light-dark(#4d565f,#a5afb8);--line:light-dark(#d5dbe1,#343c43);--bar:light-dark(#2f6fb3,#7cb8f5);
--mark:light-dark(#b3261e,#ff9a90);font:15px/1.5 system-ui,sans-serif}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text)}
main{max-width:90rem;margin:0 auto;padding:1rem}
h1{margin:.5rem 0;font-size:1.6rem;line-height:1.25;overflow-wrap:anywhere}
h2{margin:1.6rem 0 .4rem;font-size:1.15rem;break-after:avoid}
.quiet,dt,caption,th{color:var(--quiet)}
dl{display:grid;grid-template-columns:minmax(7rem,11rem) minmax(0,1fr);gap:.25rem 1rem;margin:1rem 0}
dd{margin:0;overflow-wrap:anywhere}
ul,ol{margin:.3rem 0;padding-left:1.4rem}
code,pre{font:.86em/1.5 ui-monospace,monospace;overflow-wrap:anywhere}
pre{margin:.3rem 0;padding:.5rem .7rem;border:1px solid var(--line);white-space:pre-wrap}
svg{display:block;width:100%;max-width:48rem;margin:.5rem 0;font-size:12px}
svg text{fill:var(--text)}
.bar{fill:var(--bar)}
.grid{stroke:var(--line)}
.mark{stroke:var(--mark);stroke-dasharray:4 3}
table{width:100%;border-collapse:collapse;font-size:.87rem}
caption{text-align:left;padding:.25rem 0}
th,td{padding:.3rem .5rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top;overflow-wrap:break-word}
td:is([data-name=Who],[data-name=Did],[data-name=What],[data-name=Artifact],[data-name=Why],[data-name=Purpose]){
min-width:5.5rem;overflow-wrap:anywhere}
td[data-name^=Time]{white-space:nowrap}
th{font-weight:400}
td:first-child{color:var(--quiet);white-space:nowrap}
.ids td{font-family:ui-monospace,monospace;font-size:.95em}
tr{break-inside:avoid}
@media screen and (max-width:50rem){
dl{grid-template-columns:minmax(0,1fr);gap:0}
dd{margin-bottom:.4rem}
.rows thead{display:none}
.rows,.rows tbody,.rows tr{display:block}
.rows tr{padding:.5rem 0;border-bottom:1px solid var(--line)}
.rows td{display:grid;grid-template-columns:5.5rem minmax(0,1fr);padding:.1rem 0;border:0}
.rows td:empty{display:none}
.rows td::before{content:attr(data-name);color:var(--quiet)}
.ids td,.ids th{padding:.2rem}
}
@media print{
@page{size:A4;margin:14mm}
:root{color-scheme:light;font-size:10.5px}
main{max-width:none;padding:0}
.cover{break-after:page}
thead{display:table-header-group}
}
`;

/** Source of the stylesheet in a content security policy: the only style of a report. */
export const reportStyleSource = `'sha256-${createHash("sha256").update(style).digest("base64")}'`;

const columns = [
  "No.",
  "Time (UTC)",
  "Who",
  "Did",
  "What",
  "Artifact",
  "Result",
  "Why",
  "Purpose",
  "Evidence",
] as const;

export function reportHtml(report: Report): string {
  const { title } = templates[report.template];
  const heading = `${title} of ${report.tenantId}`;
  const { text } = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src ${reportStyleSource}">
<title>${heading}, ${momentOf(report.fromMs)} to ${momentOf(report.toMs)}</title>
<style>${new Markup(style)}</style>
</head>
<body>
<main>
<section class="cover">
<h1>${heading}</h1>
${cover(report)}
</section>
${plots(report)}
${table(report)}
</main>
</body>
</html>
`;
  return text;
}

function momentOf(ms: number): string {
  return new Date(ms).toISOString();
}

function cover(report: Report): Markup {
  const { template, tenantId, rows, evidence, revisions, fromMs, toMs, checkpoint } = report;
  const { origin, size } = parseCheckpoint(checkpoint);
  const facts: readonly (readonly [string, string | Markup | readonly Markup[]])[] = [
    ["Tenant", tenantId],
    ["Period", `${momentOf(fromMs)} up to, and without, ${momentOf(toMs)} (UTC)`],
    ["Log", html`<code>${origin}</code>, ${grouped(size)} leaves`],
    ["Records listed", grouped(rows.length)],
    ...evidence.map(([code, records]) => [`Evidence: ${code.replaceAll("_", " ")}`, grouped(records)] as const),
    ["Policy revisions", revisions.map(({ revision, since }) => html`<code>${revision}</code> from ${since}<br>`)],
  ];
  const period = `--from ${momentOf(fromMs)} --to ${momentOf(toMs)}`;
  const program = "svc-platform-api";
  return html`<p>${templates[template].lists}</p>
<dl>${facts.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>
<h2>What is shown</h2>
<ul>${shown(report, size).map((line) => html`<li>${line}</li>`)}</ul>
<h2>What is not proven</h2>
<ul>${notProven(report).map((line) => html`<li>${line}</li>`)}</ul>
<h2>Checkpoint</h2>
<pre>${lines(withoutCosignatures(checkpoint, origin))}</pre>
<h2>How to verify</h2>
<ol>
<li>Get the verifier key of the log from its operator, by another way than this file: <pre>${program} keys show --tenant ${tenantId}</pre></li>
<li>Let the operator pack the same period: <pre>${program} ledger pack --tenant ${tenantId} ${period} --out period.pack</pre></li>
<li>Verify the pack offline, and compare its records with the ids in the appendix: <pre>${program} ledger pack verify period.pack --key KEY</pre></li>
<li>While the log has ${grouped(size)} leaves, this command makes the same file again, byte for byte: <pre>${program} ledger report --tenant ${tenantId} --template ${template} ${period} --out report.html</pre></li>
</ol>`;
}

function shown({ evidence }: Report, size: number): readonly string[] {
  return [
    "Each record listed is exactly the one that its leaf commits to.",
    "Every such record of the period is listed, unless its content was erased.",
    "The key of the log signed the state of the log below, which covers every leaf in the appendix.",
    ...(evidence.length > 0
      ? [`Evidence counts if it arrived before the log had ${grouped(size)} leaves, also after the period.`]
      : []),
  ];
}

function notProven({ template }: Report): readonly string[] {
  return [
    "This file is not signed, and proves nothing alone. A pack of the period proves the records, and that none is left out.",
    "That the records tell the truth, or that everything that happened was recorded.",
    "When anything happened: times are the service's clock.",
    ...(template === "erasures" ? [] : ["What erased records said: the report of erasures lists who erased them."]),
  ];
}

/** Cosignatures come later, and carry their time: with them, no two reports would be the same. */
function withoutCosignatures(checkpoint: string, origin: string): readonly string[] {
  return checkpoint
    .trimEnd()
    .split("\n")
    .filter((line) => !line.startsWith("— ") || line.startsWith(`— ${origin} `));
}

function lines(texts: readonly string[]): readonly Markup[] {
  return texts.map(
    (text) => html`${text}
`,
  );
}

function plots(report: Report): Markup {
  if (report.rows.length === 0) return html``;
  const { by } = templates[report.template];
  const { of, counts: byUnit } = unitsOf(report);
  // The first revision was in force before.
  const marks = new Set(report.revisions.slice(1).map(({ since }) => of(since)));
  const counts = countsOf(report);
  const [byTime, byValue] = ["Records by time", `Records by ${by}`];
  return html`<section>
<h2>${byTime}</h2>
${columnsPlot(byTime, byUnit, marks)}
${marks.size > 0 ? html`<p class="quiet">A dashed line marks the first record under another policy revision.</p>` : html``}
<h2>${byValue}</h2>
${barsPlot(byValue, counts.slice(0, maxBars))}
${counts.length > maxBars ? html`<p class="quiet">The first ${maxBars} of ${grouped(counts.length)}.</p>` : html``}
</section>`;
}

function table(report: Report): Markup {
  const listed = report.rows.slice(0, maxListed);
  const rest = report.rows.length - listed.length;
  if (listed.length === 0) return html`<section><h2>Records</h2><p>The period has none.</p></section>`;
  const note =
    rest === 0 ? html`` : html`<p>The first ${grouped(maxListed)} records. ${grouped(rest)} more are in the CSV.</p>`;
  return html`<section>
<h2>Records</h2>
${note}
<table class="rows">
<thead><tr>${columns.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
<tbody>
${listed.map((each, at) => {
  const { time, who, did, resource, artifact, result, why, evidenced } = rowOf(each);
  const cells = [grouped(at + 1), time, who, did, resource, artifact, result, why, each.summary?.purpose, evidenced];
  return html`<tr>${cells.map((cell, column) => html`<td data-name="${columns[column] ?? ""}">${cell ?? ""}</td>`)}</tr>
`;
})}</tbody>
</table>
</section>
<section>
<h2>Appendix: record ids</h2>
<table class="ids">
<thead><tr><th scope="col">No.</th><th scope="col">Leaf</th><th scope="col">Record</th></tr></thead>
<tbody>
${listed.map(
  ({ leafIndex, recordId }, at) => html`<tr><td>${grouped(at + 1)}</td><td>${leafIndex}</td><td>${recordId}</td></tr>
`,
)}</tbody>
</table>
</section>`;
}
