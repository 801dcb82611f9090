import type { Command } from "commander";
import type { RecordId, TenantId } from "../../base/ids.ts";
import type { StoreArchive } from "../../ledger/ports/archive.ts";
import type { ErasureStatement } from "../../ledger/ports/record.ts";
import {
  type ErasedRecord,
  type ErasurePreview,
  type ErasureRefusal,
  maxErasedAtOnce,
  type RecordsAdministration,
} from "../../ledger/ports/records-administration.ts";
import { type FoundRecord, maxSearchLimit } from "../../ledger/ports/search.ts";
import { unerasable } from "../../ledger/record/operator-records.ts";
import type { SearchCriteria } from "../../ledger/search/search-query.ts";
import {
  confirmOrReport,
  readStatement,
  type StatedOptions,
  withConfirmation,
  withStatement,
} from "../confirmation.ts";
import { type CommonOptions, withCommonOptions } from "../options.ts";
import { createOutput, type Output } from "../output.ts";
import { tellSecurity } from "../security-line.ts";
import type { Terminal } from "../terminal.ts";
import { parseOrReport, withAdministrationOrReport } from "./administration.ts";
import { describeHold } from "./hold-commands.ts";
import { asksForTerms, readSearch, refuseSearch, type TermCriteria, withSearchTerms } from "./search-flags.ts";
import { withStoreOrReport } from "./store.ts";

interface EraseOptions extends CommonOptions, StatedOptions, TermCriteria {
  readonly tenant: string;
  readonly record?: readonly string[];
}

const notOverwritten =
  "erased, and the service shows it to nobody; its bytes are still in the store's write-ahead log, because somebody " +
  "reads an older state: run this again when they have ended";

/** `ledger erase`: makes records unreadable for good, and says so in the log. */
export function addLedgerEraseCommand(ledger: Command, terminal: Terminal): void {
  const command = withCommonOptions(ledger.command("erase"))
    .description(
      "erase records for good, by their ids or by all that they must have: their leaves stay, and a leaf for each says " +
        "that it was erased; where one must not be erased, none is",
    )
    .requiredOption("--tenant <tenant>", "whose records")
    .option("--record <id...>", `ids of the records, ${maxErasedAtOnce} at most; instead of what follows`);
  withConfirmation(withStatement(withSearchTerms(command))).action(async (options: EraseOptions) => {
    const output = createOutput(options.json === true, terminal);
    const wanted = readWantedOrReport(options, output, terminal);
    if (wanted === undefined) return;
    const statement = readStatement(options);
    if (!("reason" in statement) && options.dryRun !== true) return output.fail(statement);
    const preview = await previewOrReport(wanted, options, output);
    if (preview === undefined) return;
    if (options.dryRun === true) return printPreview(preview, output);
    const { length } = preview.erasable;
    const question = `Erase ${length} ${length === 1 ? "record" : "records"} of tenant ${wanted.tenantId} for good?`;
    // Erasing again what is erased destroys nothing.
    if (length > 0 && !(await confirmOrReport(question, options, terminal, output))) return;
    const recordIds = "recordIds" in wanted ? wanted.recordIds : preview.erasable.map(({ recordId }) => recordId);
    await withAdministrationOrReport(options, output, async (administration) => {
      const done = await eraseAll(administration, wanted.tenantId, recordIds, statement as ErasureStatement);
      tellErasures(terminal, wanted.tenantId, statement as ErasureStatement, done);
      printResult(done, preview.left, output);
    });
  });
}

/** Records by their ids, or by what they must have. */
type Wanted = { readonly tenantId: TenantId } & (
  | { readonly recordIds: readonly RecordId[] }
  | { readonly criteria: SearchCriteria }
);

type Found = Exclude<ErasurePreview, { refused: unknown }>;

interface Preview extends Found {
  /** Records that were found, and are of a kind that is never erased. */
  readonly left: readonly FoundRecord[];
}

function readWantedOrReport(options: EraseOptions, output: Output, terminal: Terminal): Wanted | undefined {
  const { tenant, record } = options;
  const { tenantId, recordIds } = parseOrReport({ tenant, ...(record !== undefined && { record }) }, output) ?? {};
  if (tenantId === undefined || recordIds === undefined) return undefined;
  const { record: _, ...others } = options;
  const criteria = readSearch(others);
  const byTerms = asksForTerms(options);
  const problems = [
    ...("limit" in criteria ? [] : criteria),
    ...(recordIds.length > maxErasedAtOnce ? [`--record: ${maxErasedAtOnce} at most`] : []),
    ...(byTerms === (record !== undefined) || (record !== undefined && (options.from ?? options.to) !== undefined)
      ? ["either --record <id...> says what to erase, or what the records must have, besides a time"]
      : []),
  ];
  if (problems.length === 0 && "limit" in criteria)
    return record === undefined ? { tenantId, criteria } : { tenantId, recordIds };
  if ("limit" in criteria) output.fail(problems);
  else refuseSearch(problems, output, terminal);
  return undefined;
}

/** What would be erased; where something must not be, or nothing is found, reports it. */
async function previewOrReport(wanted: Wanted, options: EraseOptions, output: Output): Promise<Preview | undefined> {
  let preview: Preview | undefined;
  await withStoreOrReport(options, output, async ({ archive }) => {
    const found = "criteria" in wanted ? await findAll(archive, wanted) : undefined;
    const left = found?.filter(({ kind }) => unerasable[kind] !== undefined) ?? [];
    const recordIds =
      "recordIds" in wanted
        ? wanted.recordIds
        : (found ?? []).flatMap(({ kind, recordId }) => (unerasable[kind] === undefined ? [recordId] : []));
    if (recordIds.length === 0) return output.fail([...left.map(leftLine), "nothing is found that may be erased"]);
    const parts: Found[] = [];
    const refused: ErasureRefusal[] = [];
    for (const part of chunks(recordIds)) {
      const each = await archive.previewErasure(wanted.tenantId, part);
      if ("refused" in each) refused.push(...each.refused);
      else parts.push(each);
    }
    if (refused.length > 0) return printRefusals(refused, output);
    const [erasable, erased] = [parts.flatMap((part) => part.erasable), parts.flatMap((part) => part.erased)];
    preview = { erasable, erased, left };
  });
  return preview;
}

/** Everything that is found and not erased. */
async function findAll(
  archive: StoreArchive,
  { tenantId, criteria }: Extract<Wanted, { criteria: unknown }>,
): Promise<readonly FoundRecord[]> {
  const found: FoundRecord[] = [];
  let after: number | undefined;
  do {
    const start = after === undefined ? {} : { after };
    const page = await archive.search({ ...criteria, ...start, tenantId, limit: maxSearchLimit });
    found.push(...page.found);
    after = page.next;
  } while (after !== undefined);
  return found;
}

/** In as many transactions as it takes. What is refused ends it: a hold that was placed meanwhile. */
async function eraseAll(
  administration: RecordsAdministration,
  tenantId: TenantId,
  recordIds: readonly RecordId[],
  statement: ErasureStatement,
): Promise<Done> {
  const erased: ErasedRecord[] = [];
  let overwritten: boolean | undefined;
  for (const part of chunks(recordIds)) {
    const result = await administration.erase(tenantId, part, statement);
    if ("refused" in result) return { erased, overwritten, refused: result.refused };
    erased.push(...result.erased);
    ({ overwritten } = result);
  }
  return { erased, overwritten, refused: [] };
}

/** The reason stays in the record: it is the operator's text. */
function tellErasures(terminal: Terminal, tenantId: TenantId, { operator }: ErasureStatement, { erased }: Done): void {
  const records = erased.filter(({ wasErased }) => !wasErased).length;
  if (records > 0)
    tellSecurity(terminal, "records_erased", { tenant_id: tenantId, operator, records }, "records were erased");
}

interface Done {
  readonly erased: readonly ErasedRecord[];
  /** Of the last transaction, which overwrites for all before it. */
  readonly overwritten: boolean | undefined;
  readonly refused: readonly ErasureRefusal[];
}

function* chunks(recordIds: readonly RecordId[]): Generator<readonly RecordId[]> {
  for (let at = 0; at < recordIds.length; at += maxErasedAtOnce) yield recordIds.slice(at, at + maxErasedAtOnce);
}

function leftLine({ recordId, kind }: FoundRecord): string {
  return `${recordId}: ${why({ recordId, why: "kind", kind })}`;
}

function printResult({ erased, overwritten, refused }: Done, left: Preview["left"], output: Output): void {
  if (refused.length > 0 && erased.length === 0) printRefusals(refused, output);
  else printErased(erased, overwritten, left, refused, output);
}

function printPreview({ erasable, erased, left }: Preview, output: Output): void {
  const lines = [
    ...erasable.map(({ recordId, leafIndex, kind }) => `${recordId}: leaf ${leafIndex}, ${kind}, would be erased`),
    ...erased.map(line),
    ...left.map(leftLine),
  ];
  const would_erase = erasable.map(({ recordId, leafIndex, kind }) => ({
    record_id: recordId,
    leaf_index: leafIndex,
    kind,
  }));
  const value = { dry_run: true, would_erase, erased: erased.map(membersOf), ...leftMembers(left) };
  output.succeed(value, lines.join("\n"));
}

function printRefusals(refusals: readonly ErasureRefusal[], output: Output): void {
  const refused = refusals.map((refusal) => ({ record_id: refusal.recordId, why: refusal.why }));
  const problems = refusals.map((refusal) => `${refusal.recordId}: ${why(refusal)}`);
  output.fail([...problems, "nothing was erased"], { refused });
}

function printErased(
  records: readonly ErasedRecord[],
  overwritten: boolean | undefined,
  left: Preview["left"],
  refused: readonly ErasureRefusal[],
  output: Output,
): void {
  const value = {
    erased: records.map(membersOf),
    ...(overwritten !== undefined && { overwritten }),
    ...leftMembers(left),
  };
  const text = [...records.map(line), ...left.map(leftLine)].join("\n");
  const problems = [
    ...refused.map((refusal) => `${refusal.recordId}: ${why(refusal)}`),
    ...(refused.length > 0 ? ["the others that were found are not erased: give the command again"] : []),
    ...(overwritten === false ? [notOverwritten] : []),
  ];
  if (problems.length > 0) output.fail(problems, value, text);
  else output.succeed(value, text);
}

function leftMembers(left: Preview["left"]) {
  return left.length === 0 ? {} : { left: left.map(({ recordId, kind }) => ({ record_id: recordId, kind })) };
}

function why(refusal: ErasureRefusal): string {
  if (refusal.why === "unknown") return "the tenant has no such record";
  if (refusal.why === "kind") return `a record of kind ${refusal.kind} is never erased: ${unerasable[refusal.kind]}`;
  return describeHold(refusal.hold);
}

function membersOf({ recordId, leafIndex, erasureLeafIndex, erasedAt, wasErased }: ErasedRecord) {
  return {
    record_id: recordId,
    leaf_index: leafIndex,
    erasure_leaf_index: erasureLeafIndex,
    erased_at: erasedAt,
    was_erased: wasErased,
  };
}

function line({ recordId, leafIndex, erasureLeafIndex, erasedAt, wasErased }: ErasedRecord): string {
  return `${recordId}: leaf ${leafIndex} ${wasErased ? "was erased already," : "erased"} by leaf ${erasureLeafIndex} at ${erasedAt}`;
}
