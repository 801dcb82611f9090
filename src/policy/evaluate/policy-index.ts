/**
 * Finds policies whose demands a request can meet from the request's values, without examining each policy. An index is
 * plain data, so that the checking thread can build it.
 */
import type { Assumption, Demand, Demands } from "./demands.ts";
import type { Paths, Scene, Slot } from "./scene.ts";
import { EntityValue, SetValue, type Value } from "./values.ts";

/** A policy, by its position in the set. */
export interface IndexedPolicy extends Demands {
  readonly position: number;
}

/** Policies by the values that they demand of one path in one way. */
interface Group {
  readonly slot: Slot;
  readonly kind: Demand["kind"];
  readonly found: Map<Key, Found>;
  /** Lengths of the texts that values begin or end with. */
  readonly lengths: Set<number>;
}

type Key = Demand["values"][number];
/** Positions of policies: an index by their other demands if there are many, a number if there is one. */
type Found = number | readonly number[] | PolicyIndex;

/** A group under construction: each policy with its other demands. */
interface GroupInMaking extends Omit<Group, "found"> {
  readonly buckets: Map<Key, IndexedPolicy[]>;
}

/** Most policies that are examined one by one. */
const maxTogether = 8;

/** Slots are numbers of the paths that it was made with. */
export interface PolicyIndex {
  /** All policies in this index, and those without demands. */
  readonly all: readonly number[];
  readonly always: readonly number[];
  readonly groups: readonly Group[];
  readonly assumptions: readonly Assumption[];
}

/** Indexes policies, each by its rarest demand. */
export function indexOf(policies: readonly IndexedPolicy[]): PolicyIndex {
  /** How many policies demand each value. */
  const wanted = new Map<string, number>();
  for (const name of policies.flatMap(({ demands }) => demands.flatMap(names)))
    wanted.set(name, (wanted.get(name) ?? 0) + 1);
  const wantedBy = (demand: Demand) => names(demand).reduce((sum, name) => sum + (wanted.get(name) ?? 0), 0);
  const always: number[] = [];
  const groups = new Map<string, GroupInMaking>();
  const assumptions = new Map<string, Assumption>();
  for (const policy of policies) {
    const [rarest, ...others] = policy.demands.toSorted((a, b) => wantedBy(a) - wantedBy(b));
    if (rarest === undefined) always.push(policy.position);
    else {
      for (const assumption of policy.assumptions) assumptions.set(`${assumption.slot} ${assumption.is}`, assumption);
      addTo(groups, policy.position, rarest, others);
    }
  }
  return {
    all: policies.map(({ position }) => position),
    always,
    groups: Array.from(groups.values(), ({ buckets, ...group }) => ({
      ...group,
      found: new Map(Array.from(buckets, ([value, bucket]) => [value, foundIn(bucket)] as const)),
    })),
    assumptions: [...assumptions.values()],
  };
}

function addTo(
  groups: Map<string, GroupInMaking>,
  position: number,
  { slot, kind, values }: Demand,
  others: readonly Demand[],
): void {
  const name = `${slot} ${kind}`;
  const group: GroupInMaking = groups.get(name) ?? { slot, kind, buckets: new Map(), lengths: new Set() };
  groups.set(name, group);
  for (const value of values) {
    const bucket = group.buckets.get(value) ?? [];
    group.buckets.set(value, bucket);
    // Assumptions are checked once.
    bucket.push({ position, demands: others, assumptions: [] });
    if (typeof value === "string") group.lengths.add(value.length);
  }
}

function foundIn(bucket: readonly IndexedPolicy[]): Found {
  if (bucket.length > maxTogether && bucket.some(({ demands }) => demands.length > 0)) return indexOf(bucket);
  const [first, ...others] = bucket.map(({ position }) => position);
  return others.length === 0 ? (first as number) : [first as number, ...others];
}

/** The paths of scenes, and their slots by the index's numbers. */
export interface IndexPlace {
  readonly paths: Paths;
  readonly slots: readonly Slot[];
}

/** Passes on the positions of all policies that may apply or fail; some more than once. */
export function findCandidates(
  { all, always, groups, assumptions }: PolicyIndex,
  place: IndexPlace,
  scene: Scene,
  take: (positions: readonly number[]) => void,
): void {
  for (const assumption of assumptions) {
    if (!isSo(assumption, place, scene)) {
      take(all);
      return;
    }
  }
  if (always.length > 0) take(always);
  for (const group of groups) {
    const value = scene.value(place.slots[group.slot] as Slot);
    if (value === undefined) continue; // a test before the demand is false then
    for (const key of keysOf(group, value, scene)) {
      const found = group.found.get(key);
      if (typeof found === "number") take([found]);
      else if (found !== undefined && "groups" in found) findCandidates(found, place, scene, take);
      else if (found !== undefined) take(found);
    }
  }
}

function isSo({ slot: own, is }: Assumption, { paths, slots }: IndexPlace, scene: Scene): boolean {
  const slot = slots[own] as Slot;
  if (!scene.has(slot)) {
    const parent = paths.step(slot)?.parent;
    return is !== "there" || parent === undefined || !scene.has(parent);
  }
  if (is === "there") return true;
  if (is === "members") return scene.hasMembers(slot);
  const value = scene.value(slot);
  if (is === "set") return value instanceof SetValue;
  if (is === "entity") return value instanceof EntityValue;
  return typeof value === (is === "bool" ? "boolean" : is === "long" ? "number" : "string");
}

function names({ slot, kind, values }: Demand): readonly string[] {
  return values.map((value) => `${slot} ${kind} ${typeof value} ${value}`);
}

/** Keys of a value in the group. */
function keysOf({ kind, lengths }: Group, value: Value, scene: Scene): Iterable<Key> {
  switch (kind) {
    case "equals":
      return typeof value === "object" ? [] : [value];
    case "equalsEntity":
      return value instanceof EntityValue ? [value.key] : [];
    case "contains":
      return value instanceof SetValue ? value.items.filter((item) => typeof item !== "object") : [];
    case "containsEntity":
      return value instanceof SetValue
        ? value.items.filter((item) => item instanceof EntityValue).map(({ key }) => key)
        : [];
    case "in":
      return value instanceof EntityValue ? [value.key, ...scene.ancestors(value)] : [];
    case "startsWith":
      return typeof value === "string" ? [...lengths].map((length) => value.slice(0, length)) : [];
    case "endsWith":
      return typeof value === "string" ? [...lengths].map((length) => value.slice(-length)) : [];
  }
}
