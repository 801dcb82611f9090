/**
 * The one rule by which the guidance of the deciding policies becomes one.
 *
 * - A list is the union of the lists that deciding policies give.
 * - A scalar that all give alike is that value. Where they differ and its name has a strictness order, the strictest
 *   is taken. Where they differ and there is no order, they conflict, and a conflict denies.
 * - A name that no deciding policy gives keeps its default (`guidance-defaults.ts`); one that is given replaces it.
 *
 * So the order of the policies does not matter, and giving the same guidance again changes nothing.
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
