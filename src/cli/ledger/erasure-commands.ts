/** `ledger erase`, and `ledger hold …`: legal holds, which prevent erasure. */
import type { RecordId, TenantId } from "../../base/ids.ts";
import { plural } from "../../base/visible-text.ts";
import type { ErasureStatement } from "../../ledger/ports/record.ts";
import {
  type ErasedRecord,
  type ErasurePreview,
  type ErasureRefusal,
  type LegalHold,
  maxErasedAtOnce,
  type ReapplyRefusal,
} from "../../ledger/ports/records-administration.ts";
import type { FoundRecord } from "../../ledger/ports/search.ts";
import { unerasable } from "../../ledger/record/operator-records.ts";
import { everyFound, type SearchCriteria } from "../../ledger/search/search-query.ts";
import type { OperatorArchive } from "../../stores/sql/archive.ts";
import type { RecordsAdministration } from "../../stores/sql/records-administration.ts";
import { command, readStatement, recordedStepFlags, tellSecurity } from "../frame/command.ts";
import { logsOf, parseNames, withAdministration, withArchive } from "../frame/store.ts";
import { type Answer, Refusal, type Terminal, unfinished, untilFailure } from "../frame/terminal.ts";
import { asksForTerms, readSearch, searchFlags, searchRefusal, type TermCriteria } from "./search-flags.ts";

const notOverwritten =
  "erased, and the service no longer shows it; its bytes are still in the store's write-ahead log, because a reader " +
  "holds an older state: run this again when they have ended";

/** Makes records unreadable permanently, and records that in the log. */
export const ledgerEraseCommand = command({
  name: "ledger erase",
  says:
    "erase records for good, by their ids or by all that they must have: their leaves stay, and a leaf for each says " +
    "that it was erased; if one must not be erased, none is",
  options: {
    "--tenant <tenant>": { says: "whose records", required: true },
    "--record <id...>": `ids of the records, ${maxErasedAtOnce} at most; instead of what follows`,
    ...searchFlags,
    ...recordedStepFlags,
  },
  async run(context) {
    const { options, terminal } = context;
    const wanted = readWanted(options);
    if (options.dryRun !== true) readStatement(options);
    const { tenantId } = wanted;
    const preview = await withArchive(context, ({ archive }) => previewOf(archive, wanted));
    const { length } = preview.erasable;
    const recordIds = "recordIds" in wanted ? wanted.recordIds : preview.erasable.map(({ recordId }) => recordId);
    return {
      // Erasing an erased record again destroys nothing.
      question: length === 0 ? undefined : `Erase ${plural(length, "record")} of tenant ${tenantId} for good?`,
      preview: previewAnswer(preview),
      take: (statement) =>
        withAdministration(context, async (administration) => {
          const done = await eraseAll(administration, tenantId, recordIds, statement);
          tellErasures(terminal, tenantId, statement, done);
          return doneAnswer(done, preview.left);
        }),
    };
  },
});

/** Records by their ids, or by search criteria. */
type Wanted = { readonly tenantId: TenantId } & (
  | { readonly recordIds: readonly RecordId[] }
  | { readonly criteria: SearchCriteria }
);

type Found = Exclude<ErasurePreview, { refused: unknown }>;

interface Preview extends Found {
  /** Found records of a kind that is never erased. */
  readonly left: readonly FoundRecord[];
}

function readWanted(options: TermCriteria & { readonly tenant: string; readonly record?: readonly string[] }): Wanted {
  const { tenant, record, ...others } = options;
  const { tenantId, recordIds } = parseNames({ tenant, record });
  const criteria = readSearch(others);
  const byTerms = asksForTerms(options);
  const problems = [
    ...("limit" in criteria ? [] : criteria),
    ...(recordIds.length > maxErasedAtOnce ? [`--record: ${maxErasedAtOnce} at most`] : []),
    ...(byTerms === (record !== undefined) || (record !== undefined && (options.from ?? options.to) !== undefined)
      ? ["either --record <id...> says what to erase, or what the records must have, besides a time"]
      : []),
  ];
  if (!("limit" in criteria)) throw searchRefusal(problems);
  if (problems.length > 0 || tenantId === undefined) throw new Refusal(problems);
  return record === undefined ? { tenantId, criteria } : { tenantId, recordIds };
}

/** Records that would be erased. Throws a Refusal if one must not be, or if none is found. */
async function previewOf(archive: OperatorArchive, wanted: Wanted): Promise<Preview> {
  const query = "criteria" in wanted ? { ...wanted.criteria, tenantId: wanted.tenantId } : undefined;
  const found = query === undefined ? [] : await Array.fromAsync(everyFound(archive, query));
  const left = found.filter(({ kind }) => unerasable[kind] !== undefined);
  const recordIds =
    "recordIds" in wanted
      ? wanted.recordIds
      : found.flatMap(({ kind, recordId }) => (unerasable[kind] === undefined ? [recordId] : []));
  if (recordIds.length === 0) throw new Refusal([...left.map(leftLine), "nothing is found that may be erased"]);
  const parts: Found[] = [];
  const refused: ErasureRefusal[] = [];
  for (const part of chunks(recordIds)) {
    const each = await archive.previewErasure(wanted.tenantId, part);
    if ("refused" in each) refused.push(...each.refused);
    else parts.push(each);
  }
  if (refused.length > 0) throw nothingErased(refused);
  const [erasable, erased] = [parts.flatMap((part) => part.erasable), parts.flatMap((part) => part.erased)];
  return { erasable, erased, left };
}

/** In as many transactions as needed. Stops at a refusal, such as a hold that was placed meanwhile, and at a failure. */
async function eraseAll(
  administration: RecordsAdministration,
  tenantId: TenantId,
  recordIds: readonly RecordId[],
  statement: ErasureStatement,
): Promise<Done> {
  async function* parts() {
    for (const part of chunks(recordIds)) {
      const result = await administration.erase(tenantId, part, statement);
      yield result;
      if ("refused" in result) return;
    }
  }
  const { done, failure } = await untilFailure(parts());
  const refused = done.flatMap((part) => ("refused" in part ? part.refused : []));
  const erasures = done.flatMap((part) => ("refused" in part ? [] : part));
  const erased = erasures.flatMap((part) => part.erased);
  return { erased, overwritten: erasures.at(-1)?.overwritten, refused, failure };
}

/** Without the reason, which is the operator's text and stays in the record. */
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
  /** Why the store could not be used for the rest, some of which may be erased too. */
  readonly failure: string | undefined;
}

function* chunks(recordIds: readonly RecordId[]): Generator<readonly RecordId[]> {
  for (let at = 0; at < recordIds.length; at += maxErasedAtOnce) yield recordIds.slice(at, at + maxErasedAtOnce);
}

function leftLine({ recordId, kind }: FoundRecord): string {
  return `${recordId}: ${why({ recordId, why: "kind", kind })}`;
}

function previewAnswer({ erasable, erased, left }: Preview): Answer {
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
  return { value: { would_erase, erased: erased.map(erasureMembers), ...leftMembers(left) }, text: lines.join("\n") };
}

function nothingErased(refusals: readonly ErasureRefusal[]): Refusal {
  const refused = refusals.map((refusal) => ({ record_id: refusal.recordId, why: refusal.why }));
  return new Refusal([...refusals.map(refusalLine), "nothing was erased"], { value: { refused } });
}

function doneAnswer({ erased, overwritten, refused, failure }: Done, left: Preview["left"]): Answer {
  if (refused.length > 0 && erased.length === 0) throw nothingErased(refused);
  return {
    value: {
      erased: erased.map(erasureMembers),
      ...(overwritten !== undefined && { overwritten }),
      ...leftMembers(left),
    },
    text: [...erased.map(line), ...left.map(leftLine)].join("\n"),
    problems: [
      ...refused.map(refusalLine),
      ...(refused.length > 0 ? ["the others that were found are not erased: give the command again"] : []),
      ...unfinished(failure, "that were found are erased"),
      ...(overwritten === false ? [notOverwritten] : []),
    ],
  };
}

function refusalLine(refusal: ErasureRefusal): string {
  return `${refusal.recordId}: ${why(refusal)}`;
}

function leftMembers(left: Preview["left"]) {
  return left.length === 0 ? {} : { left: left.map(({ recordId, kind }) => ({ record_id: recordId, kind })) };
}

function why(refusal: ErasureRefusal): string {
  return refusal.why === "unknown" ? "the tenant has no such record" : describeRefusal(refusal);
}

/** Describes why a record that the tenant has is not erased. */
export function describeRefusal(refusal: ReapplyRefusal): string {
  if (refusal.why === "held") return describeHold(refusal.hold);
  if (refusal.why === "unproven") return "the store has it among the erased ones, and no leaf of the log erased it";
  return `a record of kind ${refusal.kind} is never erased: ${unerasable[refusal.kind]}`;
}

function erasureMembers({ recordId, leafIndex, erasureLeafIndex, erasedAt, wasErased }: ErasedRecord) {
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

export const ledgerHoldPlaceCommand = command({
  name: "ledger hold place",
  says: "forbid that a record, or any record of a tenant, is erased",
  options: {
    "--tenant <tenant>": { says: "whose records", required: true },
    "--record <id>": "this record only",
    "--reason <text>": { says: "why; shown if an erasure is tried", required: true },
  },
  run(context) {
    const { reason } = context.options;
    const { tenantId, recordId } = parseCovered(context.options);
    return withAdministration(context, async (administration) => {
      const hold = await administration.placeHold({ tenantId, recordId, reason });
      if (hold === "erased") throw new Refusal("the record is erased: there is nothing to hold");
      if (hold === "unknown")
        throw new Refusal(recordId === undefined ? `tenant ${tenantId} has no log` : "the tenant has no such record");
      const answer = { value: { hold: holdMembers(hold) }, text: describeHold(hold) };
      if (hold.reason === reason) return answer;
      throw new Refusal("there is a hold already, for another reason; it stays as it is", answer);
    });
  },
});

export const ledgerHoldReleaseCommand = command({
  name: "ledger hold release",
  says: "end the hold on exactly this: one on the whole tenant goes on when a record's is released",
  options: {
    "--tenant <tenant>": { says: "whose records", required: true },
    "--record <id>": "the hold on this record",
    ...recordedStepFlags,
  },
  async run(context) {
    const { tenantId, recordId } = parseCovered(context.options);
    if (context.options.dryRun !== true) readStatement(context.options);
    const holds = await withArchive(context, ({ archive }) => archive.holds(tenantId));
    const found = holds.find((hold) => hold.recordId === recordId);
    if (found === undefined) throw new Refusal("there is no such hold");
    return {
      question: `Release the ${describeHold(found)}?`,
      preview: { text: `would be released: ${describeHold(found)}`, value: { would_release: holdMembers(found) } },
      take: (statement) =>
        withAdministration(context, async (administration) => {
          const hold = await administration.releaseHold(tenantId, recordId, statement);
          if (hold === undefined) throw new Refusal("there is no such hold");
          return { value: { released: holdMembers(hold) }, text: `released: ${describeHold(hold)}` };
        }),
    };
  },
});

export const ledgerHoldListCommand = command({
  name: "ledger hold list",
  says: "show the holds that are in force",
  options: { "--tenant <tenant>": "this tenant's only" },
  run(context) {
    const { tenantId } = parseNames(context.options);
    return withArchive(context, async ({ archive }) => {
      await logsOf(archive, tenantId);
      const holds = await archive.holds(tenantId);
      return {
        value: { holds: holds.map(holdMembers) },
        text: holds.map(describeHold).join("\n") || "there are no holds",
      };
    });
  },
});

/** Describes a hold. */
function describeHold({ tenantId, recordId, reason, placedAtMs }: LegalHold): string {
  const covered = recordId === undefined ? `all of tenant ${tenantId}` : `record ${recordId} of tenant ${tenantId}`;
  return `legal hold on ${covered} since ${new Date(placedAtMs).toISOString()}: ${reason}`;
}

interface Covered {
  readonly tenant: string;
  readonly record?: string;
  readonly reason?: string;
}

/** Parses the options that say what a hold covers. */
function parseCovered({ tenant, record, reason }: Covered) {
  const { tenantId, recordIds } = parseNames({ tenant, record: record === undefined ? [] : [record], reason });
  return { tenantId: tenantId as TenantId, recordId: recordIds[0] };
}

function holdMembers({ tenantId, recordId, reason, placedAtMs }: LegalHold) {
  return {
    tenant_id: tenantId,
    ...(recordId !== undefined && { record_id: recordId }),
    reason,
    placed_at: new Date(placedAtMs).toISOString(),
  };
}
