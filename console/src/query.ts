/** The search box: its words, the criteria of the listener, and the equivalent command. */
import type { Criteria } from "./api.ts";

/** Words of the box with a colon, the parameter of the listener, and the option of the command. */
const fields = [
  { word: "record", parameter: "record_id", option: "--record" },
  { word: "decision", parameter: "decision_id", option: "--decision" },
  { word: "request", parameter: "request_id", option: "--request" },
  { word: "digest", parameter: "artifact_digest", option: "--artifact-digest" },
  { word: "cid", parameter: "cid", option: "--cid" },
  { word: "resource", parameter: "resource_id", option: "--resource" },
  { word: "attribute", parameter: "attribute", option: "--attribute" },
  { word: "label", parameter: "label", option: "--label" },
  { word: "on-behalf-of", parameter: "on_behalf_of", option: "--on-behalf-of" },
  { word: "subject", parameter: "subject", option: "--subject" },
  { word: "principal", parameter: "principal", option: "--principal" },
  { word: "reason", parameter: "reason", option: "--decided-by" },
  { word: "alert", parameter: "alert", option: "--alert" },
  { word: "operation", parameter: "operation", option: "--operation" },
  { word: "outcome", parameter: "outcome", option: "--outcome" },
  { word: "from", parameter: "from", option: "--from" },
  { word: "to", parameter: "to", option: "--to" },
  { word: "last", parameter: "last", option: "--last" },
] as const;

export const words: readonly string[] = fields.map(({ word }) => word);

export interface Parsed {
  readonly criteria: Criteria;
  /** What cannot be understood, in words for the person; undefined if all of it can be. */
  readonly problem?: string;
}

/** Reads the box: `word:value`, a value with spaces in double quotes, and bare values by their form. */
export function parseBox(text: string): Parsed {
  const criteria: Record<string, string> = {};
  for (const token of tokensOf(text)) {
    const found = criterionOf(token);
    if (typeof found === "string") return { criteria: {}, problem: found };
    const [parameter, value] = found;
    if (criteria[parameter] !== undefined)
      return { criteria: {}, problem: `${wordOf(parameter)} is there twice: a record is found by one value of it` };
    criteria[parameter] = value;
  }
  return { criteria };
}

function criterionOf(token: string): readonly [string, string] | string {
  const [, word = "", rest = ""] = /^([a-z-]+):(.+)$/s.exec(token) ?? [];
  if (/^sha(256|384|512):[0-9a-f]+$/i.test(token)) return ["artifact_digest", token];
  const value = unquoted(rest);
  if (word === "last" && !/^[1-9][0-9]{0,4}[mhd]$/.test(value))
    return `last:${value} is no period: write last:90m, last:12h or last:7d`;
  const field = fields.find((one) => one.word === word || one.parameter === word);
  if (field !== undefined) return [field.parameter, isDay(field.parameter, value) ? `${value}T00:00:00Z` : value];
  if (word !== "" && !token.startsWith('"'))
    return `there is no ${word}: the words are ${words.join(", ")}. A value with a colon goes in quotes`;
  return bare(unquoted(token));
}

/** A value without a word: an id, a digest, a CID, or else the id of a resource. */
function bare(value: string): readonly [string, string] {
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(value)) return ["decision_id", value.toLowerCase()];
  if (/^[0-9a-f]{8}(-[0-9a-f]{0,4}){0,3}$/i.test(value)) return ["record_id", value.toLowerCase()];
  if (/^(sha(256|384|512):)?([0-9a-f]{64}|[0-9a-f]{96}|[0-9a-f]{128})$/i.test(value)) return ["artifact_digest", value];
  if (/^(Qm[1-9A-HJ-NP-Za-km-z]{44}|b[a-z2-7]{50,}|z[1-9A-HJ-NP-Za-km-z]{40,}|f01[0-9a-f]{60,})$/.test(value))
    return ["cid", value];
  return ["resource_id", value];
}

function isDay(parameter: string, value: string): boolean {
  return (parameter === "from" || parameter === "to") && /^\d{4}-\d{2}-\d{2}$/.test(value);
}

/** Tokens are separated by spaces outside of quotes. */
function tokensOf(text: string): readonly string[] {
  return text.match(/(?:"(?:[^"\\]|\\.)*"|[^\s"])+|"/g) ?? [];
}

function unquoted(text: string): string {
  return /^".*"$/s.test(text) && text.length > 1 ? text.slice(1, -1).replace(/\\(.)/gs, "$1") : text;
}

function quoted(value: string): string {
  return /[\s":\\]/.test(value) ? `"${value.replace(/["\\]/g, "\\$&")}"` : value;
}

function wordOf(parameter: string): string {
  return fields.find((field) => field.parameter === parameter)?.word ?? parameter;
}

/** The text of the box for these criteria: what `parseBox` reads as the same. */
export function boxOf(criteria: Criteria): string {
  const parts = fields.flatMap(({ word, parameter }) => {
    const value = criteria[parameter];
    return value === undefined ? [] : [`${word}:${quoted(value)}`];
  });
  return parts.join(" ");
}

/** The command that answers the same, for a POSIX shell. */
export function searchCommand(tenant: string, criteria: Criteria): string {
  const options = fields.flatMap(({ parameter, option }) => {
    const value = criteria[parameter];
    return value === undefined ? [] : [`${option} ${shellWord(value)}`];
  });
  return ["svc-platform-api ledger search --newest --tenant", shellWord(tenant), ...options].join(" ");
}

/** A word of a POSIX shell, quoted if it needs to be. */
export function shellWord(text: string): string {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
