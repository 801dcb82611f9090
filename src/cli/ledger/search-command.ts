import { parseTenantId, type TenantId } from "../../base/ids.ts";
import type { StoreArchive } from "../../ledger/ports/archive.ts";
import type { StoredRecord } from "../../ledger/ports/record.ts";
import type { FoundRecord, SearchPage, SearchQuery } from "../../ledger/ports/search.ts";
import { command } from "../frame/command.ts";
import { logOf, oneTenantFlag, withArchive } from "../frame/store.ts";
import { type Answer, Refusal } from "../frame/terminal.ts";
import { readSearch, searchFlags, searchRefusal } from "./search-flags.ts";

/** Finds records of a tenant; all criteria must match. */
export const ledgerSearchCommand = command({
  name: "ledger search",
  says: "find records of a tenant by what they speak of, and when; all that is given must hold",
  options: {
    "--tenant <tenant>": oneTenantFlag,
    "--record <id>": "the record with this id",
    ...searchFlags,
    "--after <index>": "behind this leaf: where the page before ended",
    "--limit <number>": "records of a page, 1 to 1000 (default 100)",
    "--records": "print the records themselves too",
  },
  run(context) {
    const { tenant, records, ...options } = context.options;
    const criteria = readSearch(options);
    const problems =
      tenant !== undefined && parseTenantId(tenant) === undefined ? ["--tenant: is not a tenant id"] : [];
    if (!("limit" in criteria)) throw searchRefusal([...problems, ...criteria]);
    if (problems.length > 0) throw new Refusal(problems);
    return withArchive(context, async ({ archive }) => {
      const { tenantId } = await logOf(archive, tenant);
      return search(archive, { ...criteria, tenantId }, records === true);
    });
  },
});

async function search(archive: StoreArchive, query: SearchQuery, withRecords: boolean): Promise<Answer> {
  const { tenantId } = query;
  const { found, next } = await fullPage(archive, query);
  const records: (StoredRecord | undefined)[] = [];
  for (const { recordId } of withRecords ? found : []) records.push(await recordOf(archive, tenantId, recordId));
  const lines = found.flatMap((record, position) => [
    lineOf(record),
    ...(records[position] === undefined ? [] : [JSON.stringify(records[position])]),
  ]);
  const more = next === undefined ? [] : [`more: --after ${next}`];
  const members = found.map((record, position) => ({
    ...describe(record),
    ...(records[position] !== undefined && { record: records[position] }),
  }));
  return {
    value: { tenant_id: tenantId, found: members, ...(next !== undefined && { next }) },
    text: [...(lines.length === 0 ? ["nothing found"] : lines), ...more].join("\n"),
  };
}

/** A page with as many records as there are, up to the limit: the store's own pages may be shorter. */
async function fullPage(archive: StoreArchive, query: SearchQuery): Promise<SearchPage> {
  const found: FoundRecord[] = [];
  let [next, size] = [query.after, 0];
  do {
    const after = next === undefined ? {} : { after: next };
    const page = await archive.search({ ...query, ...after, limit: query.limit - found.length });
    found.push(...page.found);
    ({ next, size } = page);
  } while (next !== undefined && found.length < query.limit);
  return { found, size, ...(next !== undefined && { next }) };
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
