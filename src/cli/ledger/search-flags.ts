/** Options of commands that search for records. */
import { systemClock } from "../../base/clock.ts";
import { parseSearch, type SearchCriteria, type SearchParameter } from "../../ledger/search/search-query.ts";
import { Refusal } from "../frame/terminal.ts";

/** Search options, and their parameters. */
const terms = {
  request: "request_id",
  decision: "decision_id",
  artifactDigest: "artifact_digest",
  cid: "cid",
  resource: "resource_id",
  attribute: "attribute",
  label: "label",
  onBehalfOf: "on_behalf_of",
  subject: "subject",
  principal: "principal",
  decidedBy: "reason",
  alert: "alert",
  operation: "operation",
  outcome: "outcome",
} as const satisfies Record<string, SearchParameter>;

const range = { from: "from", to: "to" } as const satisfies Record<string, SearchParameter>;

const page = {
  record: "record_id",
  last: "last",
  newest: "newest",
  after: "after",
  limit: "limit",
  countBy: "count_by",
} as const satisfies Record<string, SearchParameter>;

const flags = { ...page, ...terms, ...range };

export type TermCriteria = { readonly [Flag in keyof typeof terms | keyof typeof range]?: string };
type PageCriteria = TermCriteria & { readonly [Flag in keyof typeof page]?: string | boolean };

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

/** Whether there are criteria besides a time. */
export function asksForTerms(options: TermCriteria): boolean {
  return Object.keys(terms).some((flag) => options[flag as keyof TermCriteria] !== undefined);
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
  return Object.entries(flags).flatMap(([flag, parameter]) => {
    const value = options[flag as keyof PageCriteria];
    return value === undefined ? [] : [[parameter, String(value)] as const];
  });
}

/** An invalid search exits with 2, so that no script takes it for an answer. */
export function searchRefusal(problems: readonly string[]): Refusal {
  return new Refusal(problems, { exitCode: 2 });
}

/** The option as written on the command line. */
export function flagOf(parameter: SearchParameter): string {
  const [flag = parameter] = Object.entries(flags).find(([, named]) => named === parameter) ?? [];
  return `--${flag.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}
