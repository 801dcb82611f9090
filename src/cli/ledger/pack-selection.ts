/** What the options of `ledger pack` select. */

import { isMoment } from "../../base/text-forms.ts";
import { parseTimestamp } from "../../base/timestamps.ts";
import type { PackField, PackSelection } from "../../ledger/pack/selection.ts";
import { formOf } from "../../ledger/search/search-query.ts";
import { flagName } from "./search-flags.ts";

export interface PackFlags {
  readonly from?: string;
  readonly to?: string;
  readonly artifactDigest?: string;
  readonly cid?: string;
  readonly decision?: string;
  readonly principal?: string;
  readonly onBehalfOf?: string;
}

const fields = [
  ["artifactDigest", "artifact_digest"],
  ["cid", "cid"],
  ["decision", "decision_id"],
  ["principal", "principal"],
  ["onBehalfOf", "on_behalf_of"],
] as const satisfies readonly (readonly [keyof PackFlags, PackField])[];

type Read =
  | { readonly selection: PackSelection }
  /** `isForm`: a value is none that a record can have. */
  | { readonly problem: string; readonly isForm?: true };

/** The selection, or what is wrong with the options: exactly one is needed. */
export function readSelection(flags: PackFlags): Read {
  const values = fields.flatMap(([flag, field]) => (flags[flag] ? [{ flag, field, text: flags[flag] }] : []));
  const isRange = flags.from !== undefined || flags.to !== undefined;
  const [value] = values;
  if (values.length + (isRange ? 1 : 0) !== 1)
    return {
      problem:
        "exactly one of --from and --to, --artifact-digest, --cid, --decision, --principal, --on-behalf-of says what to pack",
    };
  return value === undefined ? readRange(flags) : readValue(value);
}

function readValue({ flag, field, text }: Given): Read {
  const { parse, message } = formOf(field);
  const value = parse(text);
  return value === undefined
    ? { problem: `${flagName(flag)}: ${message}`, isForm: true }
    : { selection: { field, value } };
}

interface Given {
  readonly flag: string;
  readonly field: PackField;
  readonly text: string;
}

function readRange({ from, to }: PackFlags): Read {
  const ends = { ...(from !== undefined && { from: moment(from) }), ...(to !== undefined && { to: moment(to) }) };
  for (const [name, end] of Object.entries(ends))
    if (!isMoment(end)) return { problem: `--${name}: is no RFC 3339 time, such as 2026-01-31T00:00:00Z` };
  if (ends.from !== undefined && ends.to !== undefined && ends.from >= ends.to)
    return { problem: "--to: is not after --from" };
  return { selection: ends };
}

/** As records have it; a text that is no time is left as it is. */
function moment(text: string): string {
  const ms = parseTimestamp(text);
  return ms === undefined ? text : new Date(ms).toISOString();
}
