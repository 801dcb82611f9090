/** Entities that represent all of their type in a comparison, which is never exact. */
import { checkBundle } from "../check/check.ts";
import type { KnownEntities } from "../check/terms.ts";
import type { PolicyBundle } from "../load/bundle.ts";
import type { EntityUid } from "../model/entity-values.ts";

/** Per type: those that differ, those that policies name, and some others. */
const maximumIds = { changed: 8, named: 8, other: 2 };

export function knownEntities(bundles: readonly [PolicyBundle, PolicyBundle]): KnownEntities {
  const [old, next] = bundles.map((bundle) => linesOf(checkBundle(bundle).entities));
  if (old === undefined || next === undefined || old.size + next.size === 0) return new Map();
  const changed = [...old.symmetricDifference(next)].map(uidOf);
  const policies = bundles.flatMap((bundle) => [...checkBundle(bundle).sets.values()].flat());
  const named = policies.flatMap(({ entities }) => entities.named.map(({ type, id }): EntityUid => [type, id]));
  const known = new Map<string, Set<string>>();
  const add = (uids: Iterable<EntityUid>, maximum: number): void => {
    const added = new Map<string, number>();
    for (const [type, id] of uids) {
      const ids = known.get(type) ?? new Set();
      const count = added.get(type) ?? 0;
      if (count >= maximum || ids.has(id)) continue;
      known.set(type, ids.add(id));
      added.set(type, count + 1);
    }
  };
  add(changed, maximumIds.changed);
  add(named, maximumIds.named);
  add([...old].map(uidOf), maximumIds.other);
  add([...next].map(uidOf), maximumIds.other);
  return new Map([...known].map(([type, ids]) => [type, [...ids]]));
}

function linesOf(entities: string | undefined): ReadonlySet<string> {
  return new Set(entities === undefined || entities === "" ? [] : entities.split("\n"));
}

function uidOf(line: string): EntityUid {
  return JSON.parse(line.slice(0, line.indexOf("\t"))) as EntityUid;
}
