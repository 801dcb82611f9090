/**
 * Pages of a search (AuthZEN Authorization API 1.0, Pagination). A token has the position of the next page, its limit,
 * and a digest of the search: `<position>.<limit>.<digest>`. It need not be authentic: a forged one only skips the
 * caller's own candidates.
 */
import { createHash } from "node:crypto";
import { invalidRequest } from "../base/errors.ts";
import type { JsonObject } from "../base/json.ts";
import { parseDecimal } from "../base/text-forms.ts";
import { canonicalText } from "../ledger/record/canonical.ts";

export interface PageAsked {
  /** Token of the previous page; empty for the first. */
  readonly token: string;
  /** Most results of a page, 0 to 2^53-1. */
  readonly limit?: bigint | undefined;
}

export interface SearchPage {
  readonly from: number;
  readonly limit: number | undefined;
  /** Returns the token of the page that begins at this position; empty if no candidate is left. */
  tokenAt(position: number): string;
}

/**
 * @param search everything that must not change between pages
 * @param count of candidates
 * @throws ServiceError `invalid_request` for a token of another search, or with another limit
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
  throw invalidRequest(
    "page.token",
    "page.token",
    "does not belong to this search: all other members must be unchanged",
  );
}
