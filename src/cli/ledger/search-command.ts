import type { Command } from "commander";
import { parseTenantId, type TenantId } from "../../base/ids.ts";
import type { StoreArchive } from "../../ledger/ports/archive.ts";
import type { StoredRecord } from "../../ledger/ports/record.ts";
import type { FoundRecord, SearchPage, SearchQuery } from "../../ledger/ports/search.ts";
import { type CommonOptions, withCommonOptions } from "../options.ts";
import { createOutput, type Output } from "../output.ts";
import type { Terminal } from "../terminal.ts";
import { type PageCriteria, readSearch, refuseSearch, withSearchTerms } from "./search-flags.ts";
import { logsOrReport, withStoreOrReport } from "./store.ts";

interface SearchOptions extends CommonOptions, PageCriteria {
  readonly tenant: string;
  readonly records?: boolean;
}

/** `ledger search`: records of a tenant by what they speak of; all that is given must hold. */
export function addLedgerSearchCommand(ledger: Command, terminal: Terminal): void {
  const command = withCommonOptions(ledger.command("search"))
    .description("find records of a tenant by what they speak of, and when; all that is given must hold")
    .requiredOption("--tenant <tenant>", "whose records")
    .option("--record <id>", "the record with this id");
  withSearchTerms(command)
    .option("--after <index>", "behind this leaf: where the page before ended")
    .option("--limit <number>", "records of a page, 1 to 1000 (default 100)")
    .option("--records", "print the records themselves too")
    .action((options: SearchOptions) => {
      const output = createOutput(options.json === true, terminal);
      const query = readQueryOrReport(options, output, terminal);
      if (query === undefined) return;
      return withStoreOrReport(options, output, async ({ archive }) => {
        if ((await logsOrReport(archive, query.tenantId, output)) === undefined) return;
        await search(archive, query, options.records === true, output);
      });
    });
}

function readQueryOrReport(options: SearchOptions, output: Output, terminal: Terminal): SearchQuery | undefined {
  const tenantId = parseTenantId(options.tenant);
  const criteria = readSearch(options);
  if (tenantId !== undefined && "limit" in criteria) return { ...criteria, tenantId };
  const problems = tenantId === undefined ? ["--tenant: is no tenant id"] : [];
  if ("limit" in criteria) output.fail(problems);
  else refuseSearch([...problems, ...criteria], output, terminal);
  return undefined;
}

async function search(archive: StoreArchive, query: SearchQuery, withRecords: boolean, output: Output): Promise<void> {
  const { found, next } = await fullPage(archive, query);
  const records: (StoredRecord | undefined)[] = [];
  for (const { recordId } of withRecords ? found : []) records.push(await recordOf(archive, query.tenantId, recordId));
  const lines = found.flatMap((record, position) => [
    lineOf(record),
    ...(records[position] === undefined ? [] : [JSON.stringify(records[position])]),
  ]);
  const more = next === undefined ? [] : [`more: --after ${next}`];
  output.succeed(
    {
      tenant_id: query.tenantId,
      found: found.map((record, position) => ({
        ...describe(record),
        ...(records[position] !== undefined && { record: records[position] }),
      })),
      ...(next !== undefined && { next }),
    },
    [...(lines.length === 0 ? ["nothing found"] : lines), ...more].join("\n"),
  );
}

/** A page with as many records as there are, up to the limit: the store's own pages may end before. */
async function fullPage(archive: StoreArchive, query: SearchQuery): Promise<SearchPage> {
  const found: FoundRecord[] = [];
  let next = query.after;
  do {
    const after = next === undefined ? {} : { after: next };
    const page = await archive.search({ ...query, ...after, limit: query.limit - found.length });
    found.push(...page.found);
    next = page.next;
  } while (next !== undefined && found.length < query.limit);
  return { found, ...(next !== undefined && { next }) };
}

async function recordOf(
  archive: StoreArchive,
  tenantId: TenantId,
  recordId: FoundRecord["recordId"],
): Promise<StoredRecord | undefined> {
  const record = await archive.find(tenantId, recordId);
  return record === "erased" || record === "unknown" ? undefined : record;
}

function lineOf({ leafIndex, recordedAt, kind, recordId, erased }: FoundRecord): string {
  return `${leafIndex}\t${recordedAt}\t${kind}\t${recordId}${erased ? "\terased" : ""}`;
}

function describe({ leafIndex, recordId, kind, recordedAt, erased }: FoundRecord) {
  return { leaf_index: leafIndex, record_id: recordId, kind, recorded_at: recordedAt, erased };
}
