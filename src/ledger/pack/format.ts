/**
 * Lines of an evidence pack. Each is an object in canonical JSON (RFC 8785) that ends with a newline: one header; then
 * entries in the order of the log, with each policy revision before the first entry that it decided; one end.
 */
import { isObject, type JsonObject, orUndefined, parseJson } from "../../base/json.ts";
import { isMoment } from "../../base/text-forms.ts";
import type { SearchField } from "../ports/search.ts";
import { assertedCanonicalText, canonicalText } from "../record/canonical.ts";

export class PackError extends Error {
  override readonly name = "PackError";
}

/** Refuses the pack because of one of its lines, counted from 1. */
export function refuse(line: number, reason: string): never {
  throw new PackError(`line ${line}: ${reason}`);
}

/** Name and version. Packs are never rewritten: a new format gets a new name. */
export const packFormat = "evidence-pack/v1";

/** Longest line, which bounds memory. Only a policy revision comes close. */
export const maxLineBytes = 16 * 1024 * 1024;

export type PackHeader = {
  readonly type: "header";
  readonly format: typeof packFormat;
  /** The signed checkpoint (C2SP tlog-checkpoint) for all proofs. */
  readonly checkpoint: string;
  /** RFC 3339 with milliseconds, UTC; not proven. */
  readonly made_at: string;
  /** From `selectionMembers`. */
  readonly selection: JsonObject;
  readonly tenant_id: string;
};

export type PackPolicy = {
  readonly type: "policy";
  /** `sha256:` and the hexadecimal SHA-256 of the content. */
  readonly revision: string;
  /** Absent if it is not stored. */
  readonly content?: string;
};

export type PackEntry = {
  readonly type: "entry";
  readonly leaf_index: number;
  /** Text of the leaf; the log hashes its UTF-8. */
  readonly leaf: string;
  /** Base64 hashes of the subtrees before this entry, from `subtreesBetween`. Absent if there are none. */
  readonly gap?: readonly string[];
  /** Base64; present if `record` is. */
  readonly opening?: string;
  /** Text of the record; the leaf commits to its UTF-8. */
  readonly record?: string;
  /** The record was erased. Absent if `record` is present, and if the leaf is shown for its position or time alone. */
  readonly erased?: true;
};

export type PackEnd = {
  readonly type: "end";
  readonly entries: number;
  /** Hexadecimal SHA-256 of all bytes before this line. It detects damage; the checkpoint protects against forgery. */
  readonly sha256: string;
};

export type PackLine = PackHeader | PackPolicy | PackEntry | PackEnd;

type Check = (value: unknown) => boolean;

const isText: Check = (value) => typeof value === "string";
const isCount: Check = (value) => typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
const isAbsent: Check = (value) => value === undefined;
const isTrue: Check = (value) => value === true;
const isTexts: Check = (value) => Array.isArray(value) && value.length > 0 && value.every(isText);
const or =
  (first: Check, second: Check): Check =>
  (value) =>
    first(value) || second(value);

const members: Readonly<Record<PackLine["type"], Readonly<Record<string, Check>>>> = {
  header: {
    format: (value) => value === packFormat,
    checkpoint: isText,
    made_at: isText,
    selection: (value) => parseSelection(value) !== undefined,
    tenant_id: isText,
  },
  policy: { revision: isText, content: or(isText, isAbsent) },
  entry: {
    leaf_index: isCount,
    leaf: isText,
    gap: or(isTexts, isAbsent),
    opening: or(isText, isAbsent),
    record: or(isText, isAbsent),
    erased: or(isTrue, isAbsent),
  },
  end: { entries: isCount, sha256: isText },
};

/** Formats a line with its newline. Throws a PackError if it is too long. */
export function formatLine(line: PackLine): string {
  const text = `${canonicalText(line)}\n`;
  if (Buffer.byteLength(text) > maxLineBytes) throw new PackError(`a ${line.type} is too long for a pack`);
  return text;
}

/** Parses a line without its newline. Throws a PackError for any text that `formatLine` does not write. */
export function parseLine(text: string): PackLine {
  const value = orUndefined(() => parseJson(text));
  if (!isObject(value)) throw new PackError("is not a JSON object");
  const type = Object.hasOwn(value, "type") ? value.type : undefined;
  if (typeof type !== "string" || !Object.hasOwn(members, type)) throw new PackError("is not a line of a pack");
  const checks = members[type as PackLine["type"]];
  for (const name of Object.keys(value))
    if (name !== "type" && !Object.hasOwn(checks, name)) throw new PackError(`the ${type} has an unknown member`);
  for (const [name, check] of Object.entries(checks))
    if (!check(value[name])) throw new PackError(`the ${type}'s ${name} is missing or malformed`);
  // Each value has one text: duplicate members, escapes, spaces, or text outside UTF-8 cannot hide anything.
  if (orUndefined(() => assertedCanonicalText(value, 0)) !== text)
    throw new PackError(`the ${type} is not canonical JSON`);
  return value as PackLine;
}

// Selection of a pack.

/** Fields for selection by value. */
export const packFields = [
  "artifact_digest",
  "cid",
  "decision_id",
  "principal",
  "on_behalf_of",
  "resource_id",
  "label",
] as const satisfies SearchField[];

type PackField = (typeof packFields)[number];

/**
 * A complete time range; or everything with one value, of all time or of a time range. For an artifact or a decision,
 * this includes the decisions that its records cite, and all that cites those, of any time.
 */
export type PackSelection = TimeRange | ValueSelection;

export interface ValueSelection extends TimeRange {
  readonly field: PackField;
  readonly value: string;
}

/** RFC 3339 with milliseconds, UTC, as in records. A selection without a value has at least one end. */
export interface TimeRange {
  /** First moment of the range. */
  readonly from?: string;
  /** First moment after the range. */
  readonly to?: string;
}

export function isOfValue(selection: PackSelection): selection is ValueSelection {
  return "field" in selection;
}

/** Whether there is an end: otherwise the range is all time. */
export function hasEnds({ from, to }: TimeRange): boolean {
  return from !== undefined || to !== undefined;
}

const linkedFields: readonly PackField[] = ["artifact_digest", "cid", "decision_id"];

/** Whether a selection includes records that decisions link to it. */
export function isLinked({ field }: ValueSelection): boolean {
  return linkedFields.includes(field);
}

/** The selection for a pack's header. */
export function selectionMembers(selection: PackSelection): JsonObject {
  if (!isOfValue(selection)) return { ...selection };
  const { field, value, ...ends } = selection;
  return { ...ends, [field]: value };
}

/** Parses the result of `selectionMembers`; undefined for anything else. */
export function parseSelection(members: unknown): PackSelection | undefined {
  if (!isObject(members)) return undefined;
  const given = Object.entries(members);
  const ends = given.filter(([name]) => name === "from" || name === "to");
  if (!ends.every(([, end]) => isMoment(end))) return undefined;
  const range: TimeRange = Object.fromEntries(ends);
  const [first, ...others] = given.filter(([name]) => name !== "from" && name !== "to");
  if (first === undefined) return hasEnds(range) ? range : undefined;
  const [name, value] = first;
  const field = packFields.find((candidate) => candidate === name);
  if (field === undefined || others.length > 0 || typeof value !== "string" || value === "") return undefined;
  // All that cites a decision belongs to it, of any time.
  return field === "decision_id" && hasEnds(range) ? undefined : { field, value, ...range };
}

// Splits a stream of bytes into lines.

export interface NumberedLine {
  /** From 1. */
  readonly number: number;
  /** Without its newline. */
  readonly text: string;
  readonly bytes: Uint8Array;
}

const newline = 0x0a;

/**
 * Lines of UTF-8 that each end with a newline. Memory: the longest line and one chunk. Rejects with a PackError at a
 * line of more than `maxBytes`, newline included, at one that is not UTF-8, and if the last newline is missing.
 */
export async function* linesOf(chunks: AsyncIterable<Uint8Array>, maxBytes: number): AsyncGenerator<NumberedLine> {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let parts: Uint8Array[] = [];
  let length = 0;
  let number = 1;
  for await (const chunk of chunks) {
    let begin = 0;
    for (let end = chunk.indexOf(newline); end >= 0; end = chunk.indexOf(newline, begin)) {
      parts.push(chunk.subarray(begin, end));
      length += end - begin;
      if (length >= maxBytes) refuse(number, "is too long");
      const bytes = Buffer.concat(parts, length);
      yield { number, bytes, text: orUndefined(() => decoder.decode(bytes)) ?? refuse(number, "is not UTF-8") };
      number += 1;
      parts = [];
      length = 0;
      begin = end + 1;
    }
    parts.push(chunk.subarray(begin));
    length += chunk.length - begin;
    if (length >= maxBytes) refuse(number, "is too long");
  }
  if (length > 0) throw new PackError(`line ${number}: is cut off`);
}
