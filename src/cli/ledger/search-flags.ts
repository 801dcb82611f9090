/** Options of commands that search for records. */
import { Option } from "commander";
import { systemClock } from "../../base/clock.ts";
import { searchFields } from "../../ledger/ports/search.ts";
import {
  parseSearch,
  type SearchCriteria,
  type SearchParameter,
  searchParameters,
} from "../../ledger/search/search-query.ts";
import type { Values } from "../frame/command.ts";
import { Refusal } from "../frame/terminal.ts";

/** Options for the content of records and the time of recording. */
export const searchFlags = {
  "--request <id>": "what was recorded of the call with this request id",
  "--decision <id>": "a decision, and everything that cites it",
  "--artifact-digest <digest>":
    "what was said of the artifact with this digest, in any spelling, or as sha256sum prints it",
  "--cid <cid>": "what was said of the artifact with this CID in any base, as it was given or derived",
  "--resource <id>": "requests about the resource with this id",
  "--attribute <key=value>": "requests with this attribute",
  "--label <label>": "requests with this label",
  "--on-behalf-of <type/id>": "what enforcement points asked for this subject; a slash in the type is ~1",
  "--subject <subject>": "calls of this subject",
  "--principal <id>": "calls of this principal",
  "--decided-by <reason>": "decisions with this among their reasons",
  "--alert <name>": "decisions with this alert of a policy that decided",
  "--operation <operation>": "requests for this operation",
  "--outcome <outcome>":
    "decisions: allow, deny; registrations: accepted, refused; events: their word, unknown for another",
  "--from <time>": "recorded at this time or later (RFC 3339)",
  "--to <time>": "recorded before this time (RFC 3339)",
} as const;

export type TermCriteria = Values<typeof searchFlags>;
type PageOption = "record" | "last" | "newest" | "after" | "limit" | "countBy";
type PageCriteria = { readonly [Name in keyof TermCriteria | PageOption]?: unknown };

/** Whether there are criteria besides a time. */
export function asksForTerms(options: TermCriteria): boolean {
  const terms: readonly string[] = searchFields.filter((field) => field !== "record_id");
  return searchedParameters(options).some((parameter) => terms.includes(parameter));
}

/** The search, or the problems of the options. */
export function readSearch(options: PageCriteria): SearchCriteria | readonly string[] {
  const criteria = parseSearch(Object.fromEntries(givenValues(options)), systemClock.now());
  return "limit" in criteria ? criteria : criteria.map(({ parameter, message }) => `${flagOf(parameter)}: ${message}`);
}

/** Names of the parameters that are given. */
export function searchedParameters(options: PageCriteria): readonly string[] {
  return givenValues(options).map(([parameter]) => parameter);
}

/** The parameters that are given, with their texts. */
export function givenValues(options: PageCriteria): readonly (readonly [SearchParameter, string])[] {
  return searchParameters.flatMap((parameter) => {
    const value = options[new Option(flagOf(parameter)).attributeName() as keyof PageCriteria];
    return value === undefined ? [] : [[parameter, String(value)] as const];
  });
}

/** An invalid search exits with 2, so that no script takes it for an answer. */
export function searchRefusal(problems: readonly string[]): Refusal {
  return new Refusal(problems, { exitCode: 2 });
}

/** Parameters whose option has another name. */
const renamed: Readonly<Partial<Record<SearchParameter, string>>> = {
  ...{ record_id: "record", request_id: "request", decision_id: "decision", resource_id: "resource" },
  reason: "decided-by",
};

/** The option as written on the command line. */
export function flagOf(parameter: SearchParameter): string {
  return `--${renamed[parameter] ?? parameter.replaceAll("_", "-")}`;
}
