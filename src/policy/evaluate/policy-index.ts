/** Which policies a request can meet the demands of: found by what the request has, not by looking at each policy. */
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
  /** By number of the value. */
  readonly found: Map<number, Found>;
  /** Lengths of the texts that values begin or end with. */
  readonly lengths: Set<number>;
}

type Key = Demand["values"][number];
/** Positions of policies; of many, by what else they demand. Of one, which is what most values have, no array is kept. */
type Found = number | readonly number[] | PolicyIndex;

/** A group while policies are added: each with what it demands besides. */
interface GroupInMaking extends Omit<Group, "found"> {
  readonly buckets: Map<number, IndexedPolicy[]>;
}

/** Policies that are looked at one by one. */
const maxTogether = 8;
/** Policies that are indexed between two turns of the event loop. */
const policiesATurn = 200;

export class PolicyIndex {
  readonly #paths: Paths;
  /** Every policy that is here, and those that demand nothing. */
  readonly #all: number[] = [];
  readonly #always: number[] = [];
  readonly #groups: Group[] = [];
  readonly #assumptions = new Map<string, Assumption>();

  private constructor(paths: Paths) {
    this.#paths = paths;
  }

  /** Indexes policies in steps, each by that of its demands that the fewest have. */
  static *of(policies: readonly IndexedPolicy[], paths: Paths): Generator<undefined, PolicyIndex> {
    const index = new PolicyIndex(paths);
    const wanted = new Wanted();
    const groups = new Map<string, GroupInMaking>();
    for (const [number, { demands }] of policies.entries()) {
      for (const demand of demands) wanted.add(demand);
      if (number % policiesATurn === policiesATurn - 1) yield;
    }
    for (const [number, policy] of policies.entries()) {
      index.#all.push(policy.position);
      const [rarest, ...others] = policy.demands.toSorted((a, b) => wanted.by(a) - wanted.by(b));
      if (rarest === undefined) index.#always.push(policy.position);
      else index.#add(policy, rarest, others, groups);
      if (number % policiesATurn === policiesATurn - 1) yield;
    }
    for (const { buckets, ...group } of groups.values()) {
      const found = new Map<number, Found>();
      for (const [value, bucket] of buckets) {
        const [first, ...others] = bucket.map(({ position }) => position);
        const isLarge = bucket.length > maxTogether;
        if (isLarge && bucket.some(({ demands }) => demands.length > 0)) {
          found.set(value, yield* PolicyIndex.of(bucket, paths));
          yield;
        } else found.set(value, others.length === 0 ? (first as number) : [first as number, ...others]);
        if (found.size % policiesATurn === 0) yield;
      }
      index.#groups.push({ ...group, found });
    }
    return index;
  }

  /** Hands over the positions of all policies that may apply or fail; some more than once. */
  candidates(scene: Scene, take: (positions: readonly number[]) => void): void {
    for (const assumption of this.#assumptions.values()) {
      if (!this.#isSo(assumption, scene)) {
        take(this.#all);
        return;
      }
    }
    if (this.#always.length > 0) take(this.#always);
    for (const group of this.#groups) {
      const value = scene.value(group.slot);
      if (value === undefined) continue; // a test before the demand is false then
      for (const key of keysOf(group, value, scene)) {
        const found = group.found.get(numberOf(key));
        if (found instanceof PolicyIndex) found.candidates(scene, take);
        else if (found !== undefined) take(typeof found === "number" ? [found] : found);
      }
    }
  }

  #add(
    { position, assumptions }: IndexedPolicy,
    { slot, kind, values }: Demand,
    others: readonly Demand[],
    groups: Map<string, GroupInMaking>,
  ): void {
    for (const assumption of assumptions) this.#assumptions.set(`${assumption.slot} ${assumption.is}`, assumption);
    const name = `${slot} ${kind}`;
    const group: GroupInMaking = groups.get(name) ?? { slot, kind, buckets: new Map(), lengths: new Set() };
    groups.set(name, group);
    for (const value of values) {
      const number = numberOf(value);
      const bucket = group.buckets.get(number) ?? [];
      group.buckets.set(number, bucket);
      // What was assumed once need not be asked again.
      bucket.push({ position, demands: others, assumptions: [] });
      if (typeof value === "string") group.lengths.add(value.length);
    }
  }

  #isSo({ slot, is }: Assumption, scene: Scene): boolean {
    if (!scene.has(slot)) {
      const parent = this.#paths.step(slot)?.parent;
      return is !== "there" || parent === undefined || !scene.has(parent);
    }
    if (is === "there") return true;
    if (is === "members") return scene.hasMembers(slot);
    const value = scene.value(slot);
    if (is === "set") return value instanceof SetValue;
    if (is === "entity") return value instanceof EntityValue;
    return typeof value === (is === "bool" ? "boolean" : is === "long" ? "number" : "string");
  }
}

/**
 * A number in place of a value, so that none of a hundred thousand texts stays on the heap (FNV-1a, 32 bits). Of two values
 * that have the same, the policies of both are found: that costs a look, as each is evaluated before it applies.
 */
function numberOf(value: Key): number {
  const text = String(value);
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash | 0;
}

/** How many policies demand each value. */
class Wanted {
  readonly #counts = new Map<string, number>();

  add(demand: Demand): void {
    for (const name of names(demand)) this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1);
  }

  by(demand: Demand): number {
    return names(demand).reduce((sum, name) => sum + (this.#counts.get(name) ?? 0), 0);
  }
}

function names({ slot, kind, values }: Demand): readonly string[] {
  return values.map((value) => `${slot} ${kind} ${typeof value} ${value}`);
}

/** What a value is known by in the group. */
function keysOf({ kind, lengths }: Group, value: Value, scene: Scene): Iterable<Demand["values"][number]> {
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
