/** `ledger search`: records by what they speak of; and `ledger report`: those of a period, as a file for a person. */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { userInfo } from "node:os";
import { join, parse } from "node:path";
import { pipeline } from "node:stream/promises";
import { systemClock } from "../../base/clock.ts";
import { parseTenantId, type TenantId } from "../../base/ids.ts";
import { orUndefined } from "../../base/json.ts";
import { grouped, listed, visibleLine } from "../../base/visible-text.ts";
import { codeText } from "../../files/file-system.ts";
import type { StoreArchive } from "../../ledger/ports/archive.ts";
import type { StoredRecord } from "../../ledger/ports/record.ts";
import {
  type Counted,
  countings,
  type FoundRecord,
  type SearchPage,
  type SearchQuery,
} from "../../ledger/ports/search.ts";
import { reportHtml } from "../../ledger/report/html.ts";
import { readReport, reportCsv, reportTemplates } from "../../ledger/report/report.ts";
import { countRows, csvText, type Row, rowColumns, rowOf } from "../../ledger/search/rows.ts";
import { ambiguousId, pageMembers } from "../../ledger/search/search-query.ts";
import { sumOf } from "../../ledger/search/summary.ts";
import { logNameOf } from "../../ledger/tlog/log-name.ts";
import { command, tellSecurity } from "../frame/command.ts";
import { logOf, oneTenantFlag, withArchive } from "../frame/store.ts";
import { type Answer, Refusal } from "../frame/terminal.ts";
import { signed } from "./keys-commands.ts";
import { writeNew } from "./pack-commands.ts";
import { readSearch, searchedParameters, searchFlags, searchRefusal } from "./search-flags.ts";

/** Finds records of a tenant; all criteria must match. */
export const ledgerSearchCommand = command({
  name: "ledger search",
  says: "find records of a tenant by what they speak of, and when; all that is given must hold",
  options: {
    "--tenant <tenant>": oneTenantFlag,
    "--record <id>": "the record with this id, which may be cut to its first 8 characters or more",
    ...searchFlags,
    "--last <duration>": "recorded in the last minutes, hours or days, such as 90m, 12h or 7d",
    "--file <file>": "what was said of this file: its SHA-256 is computed here",
    "--newest": "the newest records first",
    "--after <index>": "after this leaf: the end of the previous page",
    "--limit <number>": "records of a page, 1 to 1000 (default 100)",
    "--count-by <what>": { says: "count the records instead of listing them", choices: countings },
    "--records": "print the records themselves too",
    "--csv": "print CSV",
  },
  async run(context) {
    const { tenant, records, file, csv, json, ...options } = context.options;
    const isGivenTwice = file !== undefined && options.artifactDigest !== undefined;
    const asked = file === undefined ? options : { ...options, artifactDigest: await digestOf(file) };
    const criteria = readSearch(asked);
    const problems = [
      ...(tenant !== undefined && parseTenantId(tenant) === undefined ? ["--tenant: is not a tenant id"] : []),
      ...(isGivenTwice ? ["--file: must not be given with --artifact-digest"] : []),
      ...(csv === true && (json === true || records === true)
        ? ["--csv: must not be given with --json or --records"]
        : []),
    ];
    if (!("limit" in criteria)) throw searchRefusal([...problems, ...criteria]);
    if (problems.length > 0) throw new Refusal(problems);
    return withArchive(context, async ({ archive }) => {
      const { tenantId, origin } = await logOf(archive, tenant);
      const searched = { log: logNameOf(origin), tenant_id: tenantId, operator: userName() };
      const fields = searchedParameters(asked);
      tellSecurity(context.terminal, "ledger_searched", { ...searched, fields }, "a log is searched", "info");
      const query = { ...criteria, tenantId, summary: criteria.countBy === undefined };
      const isOwn = (one: { readonly tenantId: string | undefined }) => (one.tenantId ?? tenantId) === tenantId;
      const problem = (await archive.anchorProblems()).find(isOwn)?.message;
      if (problem !== undefined) context.terminal.err(`the store may lack records: ${problem}\n`);
      const whole = await wholePage(archive, query);
      const page = problem === undefined ? whole : { ...whole, found: whole.found.map(withoutMissing) };
      if (page.ambiguous !== undefined) throw searchRefusal([ambiguousId(page.ambiguous).message]);
      if (csv === true) {
        // Beside the table, which a program reads.
        if (page.next !== undefined) context.terminal.err(`more: --after ${page.next}\n`);
        return { text: csvOf(page) };
      }
      const shown = records === true ? await recordsOf(archive, tenantId, page.found) : [];
      return answer(page, await emptyLine(archive, query, page), tenantId, shown);
    });
  },
});

/** A page with as many records as there are, up to the limit, or the counts of all: the store's own pages are shorter. */
async function wholePage(archive: StoreArchive, query: SearchQuery): Promise<SearchPage> {
  const found: FoundRecord[] = [];
  const counts: Counted[] = [];
  let page: SearchPage | undefined;
  do {
    const after = page?.next === undefined ? {} : { after: page.next };
    page = await archive.search({ ...query, ...after, limit: query.limit - found.length });
    found.push(...page.found);
    if (page.counted !== undefined) counts.push(page.counted);
  } while (page.next !== undefined && found.length < query.limit);
  return { ...page, found, ...(page.counted !== undefined && { counted: sumOf(counts) }) };
}

/** The record without the claim that evidence is missing: the store may lack records, and the evidence among them. */
function withoutMissing(found: FoundRecord): FoundRecord {
  const { summary } = found;
  return summary?.evidence === "missing" ? { ...found, summary: { ...summary, evidence: "not_shown" } } : found;
}

function csvOf({ found, counted }: SearchPage): string {
  if (counted !== undefined) return csvText(["value", "records"], countRows(counted));
  return csvText(rowColumns, found.map(rowOf));
}

/** @param records in the order of what was found; empty if they are not asked for */
function answer(
  page: SearchPage,
  none: string | undefined,
  tenantId: TenantId,
  records: readonly (StoredRecord | undefined)[],
): Answer {
  const { found, counted, next } = page;
  const members = pageMembers(page);
  const withRecords = members.found.map((row, at) => ({ ...row, ...(records[at] && { record: records[at] }) }));
  const [head, ...rows] = tableText(counted === undefined ? found.map(rowOf) : countRows(counted));
  const lines = rows.flatMap((row, at) => [row, ...(records[at] ? [JSON.stringify(records[at])] : [])]);
  const total = counted && `${grouped(counted.records)} of ${grouped(page.size)} records match`;
  const text = [
    none === undefined ? head : undefined,
    ...lines,
    none ?? total,
    next === undefined ? undefined : `more: --after ${next}`,
  ];
  return {
    value: { tenant_id: tenantId, ...members, found: withRecords },
    text: text.filter((line) => line !== undefined).join("\n"),
  };
}

/** The line for a search without results: its range, and the principals of the newest records. */
async function emptyLine(
  archive: StoreArchive,
  { tenantId }: SearchQuery,
  { found, counted, size }: SearchPage,
): Promise<string | undefined> {
  if (found.length > 0 || (counted !== undefined && counted.records > 0)) return undefined;
  const page = await archive.search({ tenantId, terms: [], limit: 1, newest: true, countBy: "principal" });
  const names = listed((page.counted?.values ?? []).map(({ value }) => value));
  return `0 of ${grouped(size)} records match; principals here: ${names}`;
}

function recordsOf(
  archive: StoreArchive,
  tenantId: TenantId,
  found: readonly FoundRecord[],
): Promise<readonly (StoredRecord | undefined)[]> {
  return Array.fromAsync(found, async ({ recordId }) => {
    const record = await archive.find(tenantId, recordId);
    return typeof record === "string" ? undefined : record;
  });
}

async function digestOf(file: string): Promise<string> {
  const hash = createHash("sha256");
  try {
    await pipeline(createReadStream(file), hash);
  } catch (error) {
    throw new Refusal(`--file: ${file} cannot be read${codeText(error)}`, { exitCode: 2 });
  }
  return `sha256:${hash.digest("hex")}`;
}

/** The user of the process; undefined if the machine has no name for it. */
function userName(): string | undefined {
  return orUndefined(() => userInfo().username);
}

/** Aligned columns with their names in capitals. Resource and artifact are one column, the artifact cut short. */
function tableText(rows: readonly Row[]): readonly string[] {
  const shown = rows.map(({ resource, artifact, ...others }): Row => {
    if (resource === undefined || artifact === undefined) return others;
    const { time = "", who = "", did = "", ...rest } = others;
    return { time, who, did, what: `${resource} ${shortened(artifact)}`.trim(), ...rest };
  });
  const columns = Object.keys(shown[0] ?? {});
  const lines = [
    columns.map((column) => column.toUpperCase()),
    ...shown.map((row) => columns.map((column) => row[column] ?? "")),
  ];
  const visible = lines.map((cells) => cells.map(visibleLine));
  const widths = columns.map((_, at) => Math.max(...visible.map((cells) => cells[at]?.length ?? 0)));
  return visible.map((cells) =>
    cells
      .map((cell, at) => cell.padEnd(widths[at] ?? 0))
      .join("  ")
      .trimEnd(),
  );
}

/** `sha256:` and 16 more characters tell an artifact from others of a page. */
const shortLength = 23;

function shortened(artifact: string): string {
  return artifact.length > shortLength ? `${artifact.slice(0, shortLength)}…` : artifact;
}

export const ledgerReportCommand = command({
  name: "ledger report",
  says: "write what happened in a period as one HTML file to read, print and file, with how to verify it",
  options: {
    "--tenant <tenant>": oneTenantFlag,
    "--template <name>": { says: "what to report", choices: reportTemplates, required: true },
    "--out <file>": { says: "output file; must not exist yet", required: true },
    "--csv": "also write the records as CSV beside it, under the same name with .csv",
    "--last <duration>": "recorded in the last minutes, hours or days, such as 90m, 12h or 30d",
    "--from <time>": "recorded at this time or later (RFC 3339)",
    "--to <time>": "recorded before this time (RFC 3339; default: now)",
  },
  async run(context) {
    const { tenant, template, out, csv, json, config, ...period } = context.options;
    const criteria = readSearch(period);
    if (!("limit" in criteria)) throw searchRefusal(criteria);
    const { fromMs, toMs = systemClock.now() } = criteria;
    if (fromMs === undefined) throw searchRefusal(["--last or --from: is required"]);
    if (fromMs >= toMs) throw searchRefusal(["--to: is not after the beginning of the period"]);
    return withArchive(context, async (opened) => {
      const { archive } = opened;
      const { checkpoint, head } = await signed(opened, await logOf(archive, tenant));
      const { tenantId, origin, size } = head;
      const searched = { log: logNameOf(origin), tenant_id: tenantId, operator: userName() };
      const fields = ["template", ...searchedParameters(period)];
      tellSecurity(context.terminal, "ledger_searched", { ...searched, fields }, "a log is searched", "info");
      const scope = { template, tenantId, fromMs, toMs, checkpoint };
      const report = await readReport(archive, scope);
      const { dir, name } = parse(out);
      const table = csv === true ? [[join(dir, `${name}.csv`), reportCsv(report)] as const] : [];
      const files = await writeNew([[out, reportHtml(report)], ...table]);
      const records = report.rows.length;
      return {
        value: { files, template, tenant_id: tenantId, origin, tree_size: size, records },
        text: `${files.join(", ")}: ${records} records of ${origin}, of ${size} leaves`,
      };
    });
  },
});
