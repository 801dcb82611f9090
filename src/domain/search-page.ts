/**
 * Pages of a search (AuthZEN Authorization API 1.0, Pagination). A token says where the next page begins, how many results
 * a page has, and what the search was: `<position>.<limit>.<digest>`. It proves nothing, and need not: whoever makes one up
 * only skips candidates of its own.
 */
import { createHash } from "node:crypto";
import { invalidRequest } from "../base/errors.ts";
import type { JsonObject } from "../base/json.ts";
import { parseDecimal } from "../base/text-forms.ts";
import { canonicalText } from "../ledger/record/canonical.ts";

/** What a request says of its page. */
export interface PageAsked {
  /** Of the page before; empty for the first. */
  readonly token: string;
  /** Results that a page has at most, 0 to 2^53-1. */
  readonly limit?: bigint | undefined;
}

/** The part of a search that one answer has. */
export interface SearchPage {
  /** Position of the first candidate that is asked about. */
  readonly from: number;
  readonly limit: number | undefined;
  /** Token of the page that begins at this position; empty where no candidate is left. */
  tokenAt(position: number): string;
}

/**
 * @param search all that has to stay as it was from page to page
 * @param count of candidates
 * @throws ServiceError `invalid_request` for a token that is none of this search, or goes with another limit
 */
export function searchPage(asked: PageAsked | undefined, search: JsonObject, count: number): SearchPage {
  if (asked === undefined || (asked.token === "" && asked.limit === undefined)) return whole;
  const digest = createHash("sha256").update(canonicalText(search)).digest("base64url");
  const { from, limit } =
    asked.token === "" ? { from: 0, limit: Number(asked.limit) } : readToken(asked.token, digest, count);
  if (asked.limit !== undefined && Number(asked.limit) !== limit)
    throw invalidRequest("page.limit", "page.unchanged", "must be that of the page before, or left out");
  return { from, limit, tokenAt: (position) => (position < count ? `${position}.${limit}.${digest}` : "") };
}

const whole: SearchPage = { from: 0, limit: undefined, tokenAt: () => "" };

function readToken(token: string, digest: string, count: number): { readonly from: number; readonly limit: number } {
  const [position = "", size = "", of, ...more] = token.split(".");
  const [from, limit] = [parseDecimal(position), parseDecimal(size)];
  if (from !== undefined && from < count && limit !== undefined && of === digest && more.length === 0)
    return { from, limit };
  throw invalidRequest("page.token", "page.token", "is of no page of this search: all else must be as it was");
}
