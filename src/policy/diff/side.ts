/** One of two bundles in a comparison. */
import type { TenantId } from "../../base/ids.ts";
import { checkBundle, policiesOf } from "../check/check.ts";
import type { CheckedPolicy } from "../check/check-set.ts";
import type { KnownEntities } from "../check/terms.ts";
import { type CompiledEngine, type EngineOptions, engineOf } from "../engine/engine.ts";
import type { PolicyBundle } from "../load/bundle.ts";
import { otherTenants } from "../load/manifest.ts";
import { uidOf } from "../model/entities.ts";
import { type InputCatalogue, inputCatalogue } from "../model/inputs.ts";

/** Represents every tenant that neither bundle names. */
export const unnamedTenant = "any-other-tenant" as TenantId;

export interface Side {
  readonly bundle: PolicyBundle;
  readonly engine: CompiledEngine;
  readonly catalogue: InputCatalogue;
  /** Entities of both sides that represent all. */
  readonly known: KnownEntities;
}

/** Throws a TypeError for a bundle with problems. */
export function sideOf(bundle: PolicyBundle, known: KnownEntities, options: EngineOptions = {}): Side {
  const engine = engineOf(bundle, { ...options, isCached: false });
  return { bundle, engine, catalogue: inputCatalogue(bundle), known };
}

/** Tenants with the same sets on both sides. */
export interface TenantGroup {
  /** A representative. */
  readonly tenant: TenantId;
  /** `unnamedTenant` for all that neither bundle names. */
  readonly names: readonly string[];
}

export function namedTenants(sides: readonly Side[]): readonly string[] {
  const named = sides.flatMap(({ bundle }) => Object.keys(bundle.manifest.tenants));
  return [...new Set(named)].filter((tenant) => tenant !== otherTenants).sort();
}

export function tenantGroups(sides: readonly Side[]): readonly TenantGroup[] {
  const setsOf = (tenant: string) =>
    JSON.stringify(sides.map(({ engine }) => engine.layersOf(tenant as TenantId).map(({ set }) => set.name)));
  const groups = Map.groupBy([...namedTenants(sides), unnamedTenant], setsOf);
  return [...groups.values()].map((names) => ({ tenant: names[0] as TenantId, names }));
}

/** Whether the policy gives guidance. */
export function isGuided({ guidance: { scalars, lists, obligations } }: CheckedPolicy): boolean {
  return Object.keys(scalars).length + Object.keys(lists).length > 0 || obligations !== undefined;
}

/** Per type: those that differ, those that policies name, and some others. */
const maximumIds = { changed: 8, named: 8, other: 2 };

export function knownEntities(bundles: readonly [PolicyBundle, PolicyBundle]): KnownEntities {
  const [old, next] = bundles.map((bundle) => linesOf(checkBundle(bundle).entities));
  if (old === undefined || next === undefined || old.size + next.size === 0) return new Map();
  const changed = [...old.symmetricDifference(next)].map(uidIn);
  const policies = bundles.flatMap(policiesOf);
  const named = policies.flatMap(({ entities }) => entities.named);
  const known = new Map<string, Set<string>>();
  const add = (uids: readonly ReturnType<typeof uidOf>[], maximum: number): void => {
    const added = new Map<string, number>();
    for (const { type, id } of uids) {
      const ids = known.get(type) ?? new Set();
      const count = added.get(type) ?? 0;
      if (count >= maximum || ids.has(id)) continue;
      known.set(type, ids.add(id));
      added.set(type, count + 1);
    }
  };
  add(changed, maximumIds.changed);
  add(named, maximumIds.named);
  add([...old].map(uidIn), maximumIds.other);
  add([...next].map(uidIn), maximumIds.other);
  return new Map([...known].map(([type, ids]) => [type, [...ids]]));
}

function linesOf(entities: string | undefined): ReadonlySet<string> {
  return new Set(entities === undefined || entities === "" ? [] : entities.split("\n"));
}

function uidIn(line: string) {
  return uidOf(line.slice(0, line.indexOf("\t")));
}
