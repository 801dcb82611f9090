import { type DescField, getOption } from "@bufbuild/protobuf";
import { field as fieldRules } from "../../gen/buf/validate/validate_pb.ts";
import type { Violation } from "../base/errors.ts";

/**
 * The check of a list's or map's size alone. It comes before anything looks at the items: a caller who sends a million
 * of them is refused for the number, and costs no more than counting.
 */
export function itemLimit(field: DescField): (items: number, path: string) => Violation | undefined {
  const { type } = getOption(field, fieldRules);
  const max = type.case === "repeated" ? type.value.maxItems : type.case === "map" ? type.value.maxPairs : undefined;
  // Every list and map of the contract has a limit; a test holds that.
  const limit = max === undefined || max === 0n ? 0 : Number(max);
  const rule = type.case === "map" ? "map.max_pairs" : "repeated.max_items";
  return (items, path) =>
    items > limit ? { field: path, rule, message: `must have at most ${limit} items` } : undefined;
}
