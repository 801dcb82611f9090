/** The entities of an engine, kept as text until a request refers to them, because most are never used. */

import type { CedarValueJson, EntityJson, TypeAndId } from "@cedar-policy/cedar-wasm/nodejs";
import { LRUCache } from "lru-cache";
import { parseJson } from "../../base/json.ts";
import { keyOf, uidOf } from "../model/entities.ts";

/** An entity with all of its ancestors. */
export interface KnownEntity {
  readonly uid: TypeAndId;
  readonly attrs: Record<string, CedarValueJson>;
  /** By key. */
  readonly ancestors: ReadonlyMap<string, TypeAndId>;
  readonly tags?: Record<string, CedarValueJson>;
}

/** Most entities of one request; a request with more is not evaluated. */
const maximumTogether = 1_000;
/** Lines per turn of the event loop. */
const linesATurn = 5_000;

export class EntityTable {
  readonly #texts = new Map<string, string>();
  readonly #known = new LRUCache<string, KnownEntity>({ max: 1_000 });

  /** Loads the result of `joinEntities`, in steps of a few milliseconds. */
  static *from(lines: string): Generator<undefined, EntityTable> {
    const table = new EntityTable();
    let position = 0;
    for (let start = 0; start < lines.length; ) {
      const tab = lines.indexOf("\t", start);
      const newline = lines.indexOf("\n", tab);
      const end = newline < 0 ? lines.length : newline;
      table.#texts.set(lines.slice(start, tab), lines.slice(tab + 1, end));
      start = end + 1;
      if (++position % linesATurn === 0) yield;
    }
    return table;
  }

  has(uid: TypeAndId): boolean {
    return this.#texts.has(keyOf(uid));
  }

  /** Ids of the first `count` entities of each type. */
  samples(count: number): ReadonlyMap<string, readonly string[]> {
    const samples = new Map<string, string[]>();
    for (const key of this.#texts.keys()) {
      // Only identifiers and colons: see `keyOf`.
      const name = key.slice(2, key.indexOf('"', 2));
      const ids = samples.get(name);
      if (ids !== undefined && ids.length >= count) continue;
      const { type, id } = uidOf(key);
      if (ids === undefined) samples.set(type, [id]);
      else ids.push(id);
    }
    return samples;
  }

  get(uid: TypeAndId): KnownEntity | undefined {
    return this.#get(keyOf(uid));
  }

  /**
   * Returns the entities in Cedar's form, with those that their values refer to within so many steps. Values within
   * sets are not followed, because no policy can navigate them. Each has all of its ancestors as parents, so that those
   * need not be included. Undefined if there are too many.
   */
  reach(roots: readonly TypeAndId[], steps: number): readonly EntityJson[] | undefined {
    const reached = new Map<string, EntityJson>();
    let next = roots;
    for (let step = 0; step <= steps && next.length > 0; step++) {
      const found: TypeAndId[] = [];
      for (const root of next) {
        const key = keyOf(root);
        const entity = reached.has(key) ? undefined : this.#get(key);
        if (entity === undefined) continue;
        const { uid, attrs, ancestors, tags } = entity;
        reached.set(key, { uid, attrs, parents: [...ancestors.values()], ...(tags !== undefined && { tags }) });
        if (reached.size > maximumTogether) return undefined;
        if (step < steps) collect([attrs, tags ?? {}], found);
      }
      next = found;
    }
    return [...reached.values()];
  }

  #get(key: string): KnownEntity | undefined {
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const text = this.#texts.get(key);
    if (text === undefined) return undefined;
    const { attrs, parents, tags } = parseJson(text) as Pick<KnownEntity, "attrs" | "tags"> & { parents: TypeAndId[] };
    const entity = {
      uid: uidOf(key),
      attrs,
      ancestors: this.#ancestors(parents),
      ...(tags !== undefined && { tags }),
    };
    this.#known.set(key, entity);
    return entity;
  }

  /** The parents and their ancestors. Cycles and excessive numbers were excluded before. */
  #ancestors(parents: readonly TypeAndId[]): ReadonlyMap<string, TypeAndId> {
    const ancestors = new Map<string, TypeAndId>();
    for (const parent of parents) {
      const key = keyOf(parent);
      ancestors.set(key, parent);
      // An entity that the schema lists is in no file, and has no parents.
      for (const [above, uid] of this.#get(key)?.ancestors ?? []) ancestors.set(above, uid);
    }
    return ancestors;
  }
}

function collect(values: readonly CedarValueJson[], into: TypeAndId[]): void {
  for (const value of values) {
    if (typeof value !== "object" || value === null || Array.isArray(value)) continue;
    // A record of the schema may have a member of this name, which is then not text.
    const { __entity: uid } = value as { readonly __entity?: Partial<TypeAndId> };
    if (typeof uid?.type === "string" && typeof uid.id === "string") into.push(uid as TypeAndId);
    else collect(Object.values(value), into);
  }
}
