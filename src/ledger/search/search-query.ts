/** Parses search criteria from command-line options or URL parameters. */
import { ServiceError } from "../../base/errors.ts";
import { parseRecordId } from "../../base/ids.ts";
import { defined } from "../../base/json.ts";
import { parseDecimal, parseTimestamp } from "../../base/text-forms.ts";
import { keyAccessOperations, protectionOperations } from "../../base/vocabulary.ts";
import { digestOfText } from "../artifacts/digest.ts";
import type { StoreArchive } from "../ports/archive.ts";
import {
  contentFields,
  countings,
  type FoundRecord,
  maxSearchLimit,
  type SearchField,
  type SearchPage,
  type SearchQuery,
  searchFields,
} from "../ports/search.ts";
import { searchedOutcomes } from "./search-terms.ts";

/** Names of the parameters, each allowed once. */
export const searchParameters = [
  ...searchFields,
  ...(["from", "to", "last", "newest", "after", "limit", "summary", "count_by"] as const),
] as const;

/** Parameters that are open to every viewer of the log, and allowed in a URL. */
export const openParameters = searchParameters.filter((parameter) => !isContentParameter(parameter));

/** Whether the parameter is about the content of requests, which is for operators, and must not be in a URL. */
export function isContentParameter(parameter: string): boolean {
  return parameter === "summary" || parameter === "count_by" || (contentFields as ReadonlySet<string>).has(parameter);
}

export type SearchParameter = (typeof searchParameters)[number];

/** A search without the tenant, which queries never name. */
export type SearchCriteria = Omit<SearchQuery, "tenantId">;

/** Default number of records of a page. */
const defaultLimit = 100;
/** Longer than any value in a record: an attribute has a key and a value. */
const maxValueLength = 2_048;

/** Why a parameter is refused; follows its name. */
interface SearchProblem {
  readonly parameter: SearchParameter;
  readonly message: string;
}

/**
 * Parses a search. Times are RFC 3339: `from` is inclusive, `to` is not; `last` is a time before now, such as `7d`;
 * `newest` and `summary` are `true` or `false`; `after` is the `next` of the previous page; `limit` is 1 to 1,000,
 * default 100. A record's id may be cut to its first 8 characters or more.
 */
export function parseSearch(
  asked: Readonly<Partial<Record<SearchParameter, string | undefined>>>,
  nowMs: number,
): SearchCriteria | readonly SearchProblem[] {
  const problems: SearchProblem[] = [];
  const read = <Value>(
    parameter: SearchParameter,
    parse: (text: string) => Value | undefined,
    message: string,
  ): Value | undefined => {
    const text = asked[parameter];
    const value = text === undefined ? undefined : parse(text);
    if (text !== undefined && value === undefined) problems.push({ parameter, message });
    return value;
  };
  const terms = searchFields.flatMap((field) => {
    const { parse, message } = formOf(field);
    const value = read(field, parse, message);
    return value === undefined ? [] : [{ field, value }];
  });
  const time = "must be an RFC 3339 time, such as 2026-01-31T00:00:00Z";
  const lastMs = read("last", parseDuration, "must be a number of minutes, hours or days, such as 90m, 12h or 7d");
  if (lastMs !== undefined && asked.from !== undefined)
    problems.push({ parameter: "last", message: "must not be given with from" });
  const fromMs = read("from", parseTimestamp, time) ?? (lastMs === undefined ? undefined : nowMs - lastMs);
  const toMs = read("to", parseTimestamp, time);
  const newest = read("newest", parseFlag, "must be true or false");
  const after = read("after", parseDecimal, "must be the index of a leaf");
  const limit = read("limit", parseLimit, `must be 1 to ${maxSearchLimit}`) ?? defaultLimit;
  const summary = read("summary", parseFlag, "must be true or false");
  const parseCounting = (text: string) => countings.find((counting) => counting === text);
  const countBy = read("count_by", parseCounting, `must be one of ${countings.join(", ")}`);
  if (problems.length > 0) return problems;
  return { terms, limit, ...defined({ fromMs, toMs, newest, after, summary, countBy }) };
}

const minutesOf: Readonly<Record<string, number>> = { m: 1, h: 60, d: 24 * 60 };

/** In milliseconds. */
function parseDuration(text: string): number | undefined {
  const [, count, unit = ""] = /^([1-9][0-9]{0,4})([mhd])$/.exec(text) ?? [];
  return count === undefined ? undefined : Number(count) * (minutesOf[unit] ?? 0) * 60_000;
}

function parseFlag(text: string): boolean | undefined {
  return text === "true" ? true : text === "false" ? false : undefined;
}

const idForm = "00000000-0000-0000-0000-000000000000";

/** Whether the text is the beginning of a record's id, of 8 characters at least, and not the whole. */
export function isIdPrefix(text: string): boolean {
  const isLike = text.replaceAll(/[0-9a-f]/g, "0") === idForm.slice(0, text.length);
  return isLike && text.length >= 8 && text.length < idForm.length;
}

function parseValue(text: string): string | undefined {
  const isText = text.isWellFormed() && !text.includes("\u0000");
  return isText && text.length >= 1 && text.length <= maxValueLength ? text : undefined;
}

/** Parser for the values of a field, and the message for invalid text. */
interface ValueForm {
  readonly parse: (text: string) => string | undefined;
  readonly message: string;
}

const anyText: ValueForm = { parse: parseValue, message: `must be 1 to ${maxValueLength} characters of text` };

/** Values that no record can have are refused: they would find nothing, as if nothing had been recorded. */
const forms: Readonly<Partial<Record<SearchField, ValueForm>>> = {
  record_id: {
    parse: (text) => (isIdPrefix(text.toLowerCase()) ? text.toLowerCase() : parseRecordId(text.toLowerCase())),
    message: "must be a record id, such as 01890a5d-ac96-774b-bcce-b302099a8057, or its first 8 characters or more",
  },
  artifact_digest: {
    parse: (text) => parseValue(digestOfText(text) ?? ""),
    message: "must be a digest, such as sha256:9f86…, its hexadecimal digits alone, or a line of sha256sum",
  },
  attribute: {
    parse: (text) => (text.indexOf("=") > 0 ? parseValue(text) : undefined),
    message: `must be a key, = and a value, of ${maxValueLength} characters together`,
  },
  on_behalf_of: {
    parse: (text) => (/^[^/]+\/./.test(text) ? parseValue(text) : undefined),
    message: `must be a type, / and an id, of ${maxValueLength} characters together`,
  },
  operation: oneOf([...new Set([...protectionOperations, ...keyAccessOperations])]),
  outcome: oneOf(searchedOutcomes),
};

function oneOf(words: readonly string[]): ValueForm {
  return { parse: (text) => words.find((word) => word === text), message: `must be one of ${words.join(", ")}` };
}

export function formOf(field: SearchField): ValueForm {
  return forms[field] ?? anyText;
}

function parseLimit(text: string): number | undefined {
  const limit = parseDecimal(text);
  return limit !== undefined && limit >= 1 && limit <= maxSearchLimit ? limit : undefined;
}

/** The members of a page in JSON, of `ledger search` and of a search over HTTP alike. */
export function pageMembers({ found, counted, size, next }: SearchPage) {
  const rows = found.map(({ leafIndex, recordId, kind, recordedAt, erased, summary }) => ({
    leaf_index: leafIndex,
    record_id: recordId,
    kind,
    recorded_at: recordedAt,
    erased,
    ...(summary !== undefined && { summary }),
  }));
  return {
    tree_size: size,
    found: rows,
    ...(counted !== undefined && { counted }),
    ...(next !== undefined && { next }),
  };
}

/** The refusal of a search by the beginning of an id that several records have. */
export function ambiguousId(beginning: string): ServiceError {
  return new ServiceError("invalid_request", `several records have an id that begins with ${beginning}`);
}

/** Everything that is found, page after page. Rejects with an `ambiguousId`. */
export async function* everyFound(
  archive: Pick<StoreArchive, "search">,
  query: Omit<SearchQuery, "limit" | "after">,
): AsyncGenerator<FoundRecord> {
  let after: number | undefined;
  do {
    const page = await archive.search({ ...query, limit: maxSearchLimit, ...(after !== undefined && { after }) });
    if (page.ambiguous !== undefined) throw ambiguousId(page.ambiguous);
    yield* page.found;
    after = page.next;
  } while (after !== undefined);
}
