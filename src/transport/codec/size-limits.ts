/**
 * Checks sizes alone, by the rules in the protobuf definitions, before anything looks at the content. A caller that
 * sends a million items, or one text of a million characters, costs no more than counting.
 */
import { type DescField, getOption } from "@bufbuild/protobuf";
import { type FieldRules, field as fieldRules } from "../../../gen/buf/validate/validate_pb.ts";
import type { Violation } from "../../base/errors.ts";

/** Text up to this length, in UTF-16 units, is cheap to process. */
export const shortUnits = 4096;

/** Returns the check of a long text's length in characters. Accepts short texts and other values. */
export function textLimit(
  rules: FieldRules | undefined,
): (value: unknown, path: () => string) => Violation | undefined {
  const type = rules?.type ?? { case: undefined };
  // A text without a limit has none here either: its other rules apply.
  const max = type.case === "string" && type.value.maxLen > 0n ? Number(type.value.maxLen) : Number.POSITIVE_INFINITY;
  return (value, path) => {
    if (typeof value !== "string" || value.length <= shortUnits || value.length <= max) return undefined;
    if (value.length <= 2 * max && charactersIn(value) <= max) return undefined;
    return { field: path(), rule: "string.max_len", message: `must be at most ${max} characters` };
  };
}

/** Whether a violation is one of size, after which no others are looked for. */
export function isOfSize({ rule }: Violation): boolean {
  return rule === "repeated.max_items" || rule === "map.max_pairs" || rule === "string.max_len";
}

/** Rules of a field, of the items of a list, and of the keys and values of a map. */
export function textRulesOf(field: DescField) {
  const own = getOption(field, fieldRules);
  const { type } = own;
  return {
    own,
    items: type.case === "repeated" ? type.value.items : undefined,
    keys: type.case === "map" ? type.value.keys : undefined,
    values: type.case === "map" ? type.value.values : undefined,
  };
}

function charactersIn(text: string): number {
  if (Buffer.byteLength(text) === text.length) return text.length;
  let characters = text.length;
  for (let at = 0; at < text.length - 1; at++) {
    const isPair = (text.charCodeAt(at) & 0xfc00) === 0xd800 && (text.charCodeAt(at + 1) & 0xfc00) === 0xdc00;
    if (isPair) characters -= 1;
  }
  return characters;
}
