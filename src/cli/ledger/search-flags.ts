/** The options by which commands find records, and what they ask for. */
import type { Command } from "commander";
import { parseSearch, type SearchCriteria, type SearchParameter } from "../../ledger/search/search-query.ts";
import type { Output } from "../output.ts";
import type { Terminal } from "../terminal.ts";

/** Options of what to look for, and the parameter that each of them is. */
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

const page = { record: "record_id", after: "after", limit: "limit" } as const satisfies Record<string, SearchParameter>;

const flags = { ...page, ...terms, ...range };

export type TermCriteria = { readonly [Flag in keyof typeof terms | keyof typeof range]?: string };
export type PageCriteria = TermCriteria & { readonly [Flag in keyof typeof page]?: string };

/** Adds the options of what records speak of, and when they were recorded. */
export function withSearchTerms(command: Command): Command {
  return command
    .option("--request <id>", "what was recorded of the call with this request id")
    .option("--decision <id>", "a decision, and everything that cites it")
    .option(
      "--artifact-digest <digest>",
      "what was said of the artifact with this digest, in any spelling, or as sha256sum prints it",
    )
    .option("--cid <cid>", "what was said of the artifact with this CID in any base, as it was given or derived")
    .option("--resource <id>", "requests about the resource with this id")
    .option("--attribute <key=value>", "requests with this attribute")
    .option("--label <label>", "requests with this label")
    .option("--on-behalf-of <type/id>", "what enforcement points asked for this subject; a slash in the type is ~1")
    .option("--subject <subject>", "calls of this subject")
    .option("--principal <id>", "calls of this principal")
    .option("--decided-by <reason>", "decisions with this among their reasons")
    .option("--alert <name>", "decisions with this alert of a policy that decided")
    .option("--operation <operation>", "requests for this operation")
    .option(
      "--outcome <outcome>",
      "decisions: allow, deny; registrations: accepted, refused; events: their word, unknown for another",
    )
    .option("--from <time>", "recorded at this time or later (RFC 3339)")
    .option("--to <time>", "recorded before this time (RFC 3339)");
}

/** Whether anything is asked for besides a time. */
export function asksForTerms(options: TermCriteria): boolean {
  return Object.keys(terms).some((flag) => options[flag as keyof TermCriteria] !== undefined);
}

/** The search, or what is wrong with the options. */
export function readSearch(options: PageCriteria): SearchCriteria | readonly string[] {
  const criteria = parseSearch(
    Object.fromEntries(
      Object.entries(flags).map(([flag, parameter]) => [parameter, options[flag as keyof PageCriteria]]),
    ),
  );
  return "limit" in criteria ? criteria : criteria.map(({ parameter, message }) => `${flagOf(parameter)}: ${message}`);
}

/** Reports what cannot be asked for, and ends the process with 2, so that no script takes it for an answer. */
export function refuseSearch(problems: readonly string[], output: Output, terminal: Terminal): void {
  output.fail(problems);
  terminal.exitCode(2);
}

/** The option as it is written. */
function flagOf(parameter: SearchParameter): string {
  const [flag = parameter] = Object.entries(flags).find(([, named]) => named === parameter) ?? [];
  return flagName(flag);
}

/** The option that commander gives under this name. */
export function flagName(flag: string): string {
  return `--${flag.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}
