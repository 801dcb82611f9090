/**
 * Lines of an evidence pack. Each is an object in canonical JSON (RFC 8785) that ends with a newline: one header; then
 * entries in the order of the log, with each policy revision before the first entry that it decided; one end.
 */
import { createHash } from "node:crypto";
import type { JsonObject } from "../../base/json.ts";
import { assertedCanonicalText, canonicalText } from "../record/canonical.ts";
import { parseSelection } from "./selection.ts";

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

/** Returns the name of a policy revision with this content. */
export function contentAddress(content: string): string {
  return `sha256:${createHash("sha256").update(content, "utf8").digest("hex")}`;
}

/** Formats a line with its newline. Throws a PackError if it is too long. */
export function formatLine(line: PackLine): string {
  const text = `${canonicalText(line)}\n`;
  if (Buffer.byteLength(text) > maxLineBytes) throw new PackError(`a ${line.type} is too long for a pack`);
  return text;
}

/** Parses a line without its newline. Throws a PackError for any text that `formatLine` does not write. */
export function parseLine(text: string): PackLine {
  const value = parseJson(text);
  const type = Object.hasOwn(value, "type") ? value.type : undefined;
  if (typeof type !== "string" || !Object.hasOwn(members, type)) throw new PackError("is not a line of a pack");
  const checks = members[type as PackLine["type"]];
  for (const name of Object.keys(value))
    if (name !== "type" && !Object.hasOwn(checks, name)) throw new PackError(`the ${type} has an unknown member`);
  for (const [name, check] of Object.entries(checks))
    if (!check(value[name])) throw new PackError(`the ${type}'s ${name} is missing or malformed`);
  // Each value has one text: duplicate members, escapes, spaces, or text outside UTF-8 cannot hide anything.
  if (!isCanonical(value as JsonObject, text)) throw new PackError(`the ${type} is not canonical JSON`);
  return value as PackLine;
}

function isCanonical(value: JsonObject, text: string): boolean {
  try {
    return assertedCanonicalText(value, 0) === text;
  } catch {
    return false;
  }
}

function parseJson(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return { ...value };
  } catch {
    // Reported below.
  }
  throw new PackError("is no JSON object");
}
