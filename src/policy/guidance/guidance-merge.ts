/**
 * The rule for merging the guidance of the deciding policies.
 *
 * - A list is the union of their lists.
 * - A scalar with equal values has that value. Different values with a strictness order give the strictest. Different
 *   values without an order conflict, and a conflict denies.
 * - A name without a value keeps its default (`guidance-defaults.ts`); a given one replaces it.
 *
 * So the order of the policies does not matter, and repeating guidance changes nothing.
 */
import {
  type ListName,
  listNames,
  type PolicyGuidance,
  type ScalarName,
  type StrictnessOrders,
  scalarNames,
} from "./annotations.ts";

export interface MergedGuidance {
  readonly guidance: PolicyGuidance;
  /** Scalars whose values differ without an order; they are left out of `guidance`. */
  readonly conflicts: readonly ScalarName[];
}

/** Merges by the rule above. */
export function mergeGuidance(parts: readonly PolicyGuidance[], strictness: StrictnessOrders): MergedGuidance {
  const scalars: Partial<Record<ScalarName, string>> = {};
  const lists: Partial<Record<ListName, readonly string[]>> = {};
  const conflicts: ScalarName[] = [];
  for (const name of scalarNames) {
    const values = new Set(parts.flatMap((part) => part.scalars[name] ?? []));
    const chosen = values.size > 1 ? strictness[name]?.findLast((value) => values.has(value)) : [...values][0];
    if (chosen !== undefined) scalars[name] = chosen;
    else if (values.size > 1) conflicts.push(name);
  }
  for (const name of listNames) {
    const given = parts.flatMap((part) => (part.lists[name] === undefined ? [] : [part.lists[name]]));
    if (given.length > 0) lists[name] = [...new Set(given.flat())].sort();
  }
  return { guidance: { scalars, lists }, conflicts };
}
