import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { userInfo } from "node:os";
import { pipeline } from "node:stream/promises";
import { parseTenantId, type TenantId } from "../../base/ids.ts";
import type { StoreArchive } from "../../ledger/ports/archive.ts";
import type { StoredRecord } from "../../ledger/ports/record.ts";
import {
  type Counted,
  countings,
  type FoundRecord,
  type SearchPage,
  type SearchQuery,
} from "../../ledger/ports/search.ts";
import { countRows, csvText, rowColumns, rowOf } from "../../ledger/search/rows.ts";
import { pageMembers } from "../../ledger/search/search-query.ts";
import { sumOf } from "../../ledger/search/summary.ts";
import { logNameOf } from "../../ledger/tlog/log-name.ts";
import { command, tellSecurity } from "../frame/command.ts";
import { logOf, oneTenantFlag, withArchive } from "../frame/store.ts";
import { type Answer, Refusal } from "../frame/terminal.ts";
import { readSearch, searchedParameters, searchFlags, searchRefusal } from "./search-flags.ts";
import { tableText } from "./search-rows.ts";

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
    "--after <index>": "behind this leaf: where the page before ended",
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
      const page = await wholePage(archive, query);
      if (page.ambiguous !== undefined)
        throw searchRefusal([`several records have an id that begins with ${page.ambiguous}`]);
      if (csv === true) return { text: csvOf(page) };
      return answer(page, await emptyLine(archive, query, page), {
        tenantId,
        records: records === true ? await recordsOf(archive, tenantId, page.found) : [],
      });
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

function csvOf({ found, counted }: SearchPage): string {
  if (counted !== undefined) return csvText(["value", "records"], countRows(counted));
  return csvText(rowColumns, found.map(rowOf));
}

interface Told {
  readonly tenantId: TenantId;
  /** In the order of what was found; empty if they are not asked for. */
  readonly records: readonly (StoredRecord | undefined)[];
}

function answer(page: SearchPage, none: string | undefined, { tenantId, records }: Told): Answer {
  const { found, counted, next } = page;
  const members = pageMembers(page);
  const withRecords = members.found.map((row, at) => ({ ...row, ...(records[at] && { record: records[at] }) }));
  const [head, ...rows] = tableText(counted === undefined ? found.map(rowOf) : countRows(counted));
  const lines = rows.flatMap((row, at) => [row, ...(records[at] ? [JSON.stringify(records[at])] : [])]);
  const total = counted && `${count(counted.records)} of ${count(page.size)} records match`;
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

/** Most principals that are named. */
const maxNamed = 10;

/** What was searched, if nothing is found; principals are those of the newest records. */
async function emptyLine(
  archive: StoreArchive,
  { tenantId }: SearchQuery,
  { found, counted, size }: SearchPage,
): Promise<string | undefined> {
  if (found.length > 0 || (counted !== undefined && counted.records > 0)) return undefined;
  const page = await archive.search({ tenantId, terms: [], limit: 1, newest: true, countBy: "principal" });
  const names = (page.counted?.values ?? []).map(({ value }) => value);
  const more = names.length > maxNamed ? ` and ${names.length - maxNamed} more` : "";
  return `0 of ${count(size)} records match; principals here: ${names.slice(0, maxNamed).join(", ")}${more}`;
}

function count(records: number): string {
  return records.toLocaleString("en-US");
}

async function recordsOf(
  archive: StoreArchive,
  tenantId: TenantId,
  found: readonly FoundRecord[],
): Promise<readonly (StoredRecord | undefined)[]> {
  const records: (StoredRecord | undefined)[] = [];
  for (const { recordId } of found) {
    const record = await archive.find(tenantId, recordId);
    records.push(record === "erased" || record === "unknown" ? undefined : record);
  }
  return records;
}

async function digestOf(file: string): Promise<string> {
  const hash = createHash("sha256");
  try {
    await pipeline(createReadStream(file), hash);
  } catch (error) {
    const code = error instanceof Error && "code" in error ? ` (${String(error.code)})` : "";
    throw new Refusal(`--file: ${file} cannot be read${code}`, { exitCode: 2 });
  }
  return `sha256:${hash.digest("hex")}`;
}

/** The user of the process; undefined if the machine has no name for it. */
export function userName(): string | undefined {
  try {
    return userInfo().username;
  } catch {
    return undefined;
  }
}
