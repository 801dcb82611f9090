/** A request for policies: each path is looked up once for all of them. */
import type { CedarValueJson, EntityJson } from "@cedar-policy/cedar-wasm/nodejs";
import type { CedarRequest } from "./cedar-request.ts";
import { variables } from "./program.ts";
import { EntityValue, entityOf, evaluationFailed, leftToCedar, readJson, type Value } from "./values.ts";

/** Number of a path. Variables have their positions. */
export type Slot = number;

/** The last step of a path. */
export interface Step {
  readonly parent: Slot;
  readonly isTag: boolean;
  readonly name: string;
}

/** The paths that policies read, numbered: a variable, then members of records and entities, and tags. */
export class Paths {
  readonly #steps: (Step | undefined)[] = variables.map(() => undefined);
  readonly #slots = new Map<string, Slot>();

  /** Undefined for a variable. */
  step(slot: Slot): Step | undefined {
    return this.#steps[slot];
  }

  get steps(): readonly (Step | undefined)[] {
    return this.#steps;
  }

  /** Adds the paths of another instance; returns their numbers here. */
  adopt(steps: readonly (Step | undefined)[]): readonly Slot[] {
    const slots: Slot[] = [];
    for (const [slot, step] of steps.entries()) {
      slots.push(step === undefined ? slot : this.#slot({ ...step, parent: slots[step.parent] as Slot }));
    }
    return slots;
  }

  variable(name: string): Slot {
    return variables.indexOf(name);
  }

  member(parent: Slot, name: string): Slot {
    return this.#slot({ parent, isTag: false, name });
  }

  tag(parent: Slot, name: string): Slot {
    return this.#slot({ parent, isTag: true, name });
  }

  #slot(step: Step): Slot {
    const key = `${step.parent}${step.isTag ? "#" : "."}${step.name}`;
    const slot = this.#slots.get(key) ?? this.#steps.push(step) - 1;
    this.#slots.set(key, slot);
    return slot;
  }
}

type Attributes = Readonly<Record<string, CedarValueJson>>;

/** Marks a path without a value. */
const nothing = Symbol("nothing");

export class Scene {
  readonly request: CedarRequest;
  readonly #paths: Paths;
  readonly #found: (CedarValueJson | typeof nothing | undefined)[] = [];
  readonly #values: (Value | undefined)[] = [];
  #entities: ReadonlyMap<string, EntityJson> | undefined;
  readonly #ancestors = new Map<string, ReadonlySet<string>>();

  constructor(request: CedarRequest, paths: Paths) {
    this.request = request;
    this.#paths = paths;
  }

  /** Whether the path has a value. Throws `leftToCedar`, as all methods do. */
  has(slot: Slot): boolean {
    return this.#at(slot) !== nothing;
  }

  /** The value at the path; undefined if there is none. */
  value(slot: Slot): Value | undefined {
    const known = this.#values[slot];
    if (known !== undefined) return known;
    const found = this.#at(slot);
    if (found === nothing) return undefined;
    const value = readJson(found as CedarValueJson);
    this.#values[slot] = value;
    return value;
  }

  /** Whether the value can have members: it is a record or an entity. */
  hasMembers(slot: Slot): boolean {
    const found = this.#at(slot);
    if (typeof found !== "object" || found === null || Array.isArray(found)) return false;
    if (Object.hasOwn(found, "__extn")) throw leftToCedar;
    return true;
  }

  /** The member of the value; undefined if it is absent. Throws `evaluationFailed` if the value cannot have members. */
  member(value: Value, name: string): Value | undefined {
    if (value instanceof Map) return value.get(name);
    if (!(value instanceof EntityValue)) throw evaluationFailed;
    return converted(ownMember(this.#entity(value.key)?.attrs, name));
  }

  /** The tag of the entity; undefined if it is absent. */
  tag(entity: EntityValue, name: string): Value | undefined {
    return converted(ownMember(this.#entity(entity.key)?.tags, name));
  }

  isIn(entity: EntityValue, other: EntityValue): boolean {
    return entity.key === other.key || this.ancestors(entity).has(other.key);
  }

  /** Keys of all direct and indirect ancestors, without the entity itself. */
  ancestors(entity: EntityValue): ReadonlySet<string> {
    const known = this.#ancestors.get(entity.key);
    if (known !== undefined) return known;
    const found = new Set<string>();
    const next = [entity.key];
    for (let key = next.pop(); key !== undefined; key = next.pop()) {
      for (const parent of this.#entity(key)?.parents ?? []) {
        const above = entityOf(parent).key;
        if (found.has(above)) continue;
        found.add(above);
        next.push(above);
      }
    }
    this.#ancestors.set(entity.key, found);
    return found;
  }

  #at(slot: Slot): CedarValueJson | typeof nothing {
    const known = this.#found[slot];
    if (known !== undefined) return known;
    const step = this.#paths.step(slot);
    const json = step === undefined ? this.#variable(slot) : this.#stepFrom(step);
    if (json === null) throw leftToCedar;
    const found = json ?? nothing;
    this.#found[slot] = found;
    return found;
  }

  #variable(slot: Slot): CedarValueJson {
    const { principal, action, resource, context } = this.request;
    return slot === 3 ? context : { __entity: [principal, action, resource][slot] as typeof principal };
  }

  #stepFrom({ parent, isTag, name }: Step): CedarValueJson | undefined {
    const from = this.#at(parent);
    if (from === nothing || !this.hasMembers(parent)) return undefined;
    if (Object.hasOwn(from as object, "__expr")) throw leftToCedar;
    if (!Object.hasOwn(from as object, "__entity")) return isTag ? undefined : ownMember(from as Attributes, name);
    const uid = readJson(from as CedarValueJson) as EntityValue;
    const entity = this.#entity(uid.key);
    return ownMember(isTag ? entity?.tags : entity?.attrs, name);
  }

  #entity(key: string): EntityJson | undefined {
    this.#entities ??= this.#byKey();
    return this.#entities.get(key);
  }

  #byKey(): ReadonlyMap<string, EntityJson> {
    const { entities } = this.request;
    const byKey = new Map<string, EntityJson>();
    for (const entity of entities) byKey.set(entityOf(entity.uid).key, entity);
    if (byKey.size < entities.length) throw leftToCedar;
    return byKey;
  }
}

function ownMember(members: Attributes | undefined, name: string): CedarValueJson | undefined {
  return members !== undefined && Object.hasOwn(members, name) ? members[name] : undefined;
}

function converted(json: CedarValueJson | undefined): Value | undefined {
  return json === undefined ? undefined : readJson(json);
}
