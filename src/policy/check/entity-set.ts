/** Checks all entities of a directory together, and serializes them for `entity-table.ts`. */
import type { EntityJson, TypeAndId } from "@cedar-policy/cedar-wasm/nodejs";
import { parsePrincipalId, parseTenantId } from "../../base/ids.ts";
import { cedar } from "../model/cedar.ts";
import { type DeclaredEntities, type EntitySchema, readEntitySchema } from "../model/entity-types.ts";
import { describeUid, type EntityUid, keyOf } from "../model/entity-values.ts";
import type { PolicyProblem } from "../model/problem.ts";
import { type Entity, lineOfElement, readEntityFile } from "./entity-file.ts";

const maximumEntities = 250_000;
/** Most direct and indirect ancestors of an entity: each is part of every request that refers to it. */
const maximumAncestors = 256;
/** Most problems that are reported one by one. */
const maximumNamed = 20;

/** All entities, or all of their problems. */
export interface JoinedEntities {
  /** One entity per line: its key, a tab, and its text, which has no line breaks. Empty if there are problems. */
  readonly lines: string;
  readonly problems: readonly PolicyProblem[];
  /** Whether the schema is valid. */
  readonly hasSchema: boolean;
  /** Whether the entity exists; reliable only without problems. */
  readonly exists: (uid: TypeAndId) => boolean;
}

/** Reads and checks all declared entities. Does not throw. */
export function joinEntities(declared: DeclaredEntities): JoinedEntities {
  const { schema, problems: wrong } = readEntitySchema(declared);
  if (schema === undefined) return { lines: "", problems: wrong, hasSchema: false, exists: () => false };
  const read = Object.entries(declared.files).map(([file, text]) => readEntityFile(file, text, schema));
  const entities = read.flatMap((part) => part.entities);
  const set = new EntitySet(schema);
  const problems = read.flatMap((part) => part.problems);
  if (entities.length > maximumEntities) {
    problems.push({ file: declared.schemaFile, message: `there are more than ${maximumEntities} entities` });
  }
  if (problems.length === 0) problems.push(...problemsTogether(entities, set, declared));
  const lineOf = ({ type, id, text }: Entity) => `${keyOf(type, id)}\t${text}`;
  return {
    lines: problems.length > 0 ? "" : entities.map(lineOf).join("\n"),
    problems,
    hasSchema: true,
    exists: ({ type, id }) => set.exists(type, id),
  };
}

interface Found {
  readonly entity: Entity;
  readonly message: string;
  readonly hint?: string;
}

/** Finds problems between entities that are valid one by one. Fills the set. */
function problemsTogether(
  entities: readonly Entity[],
  set: EntitySet,
  declared: DeclaredEntities,
): readonly PolicyProblem[] {
  const found = [...identityProblems(entities, set, declared.references.principal)];
  found.push(...missingProblems(entities, set));
  if (found.length === 0) found.push(...hierarchyProblems(entities, set), ...cedarProblems(entities, declared));
  return found.slice(0, maximumNamed).map(({ entity: { file, position }, message, hint }) => {
    const line = lineOfElement(declared.files[file] as string, position);
    return { file, line, message, ...(hint !== undefined && { hint }) };
  });
}

class EntitySet {
  readonly #schema: EntitySchema;
  readonly #byType = new Map<string, Map<string, Entity>>();

  constructor(schema: EntitySchema) {
    this.#schema = schema;
  }

  get(type: string, id: string): Entity | undefined {
    return this.#byType.get(type)?.get(id);
  }

  /** Returns those that are in a file. */
  each(uids: readonly EntityUid[]): readonly Entity[] {
    const found: Entity[] = [];
    for (const [type, id] of uids) {
      const entity = this.get(type, id);
      if (entity !== undefined) found.push(entity);
    }
    return found;
  }

  /** Adds the entity; returns the existing one if type and id are taken. */
  add(entity: Entity): Entity | undefined {
    const ofType = this.#byType.get(entity.type);
    const known = ofType?.get(entity.id);
    if (ofType === undefined) this.#byType.set(entity.type, new Map([[entity.id, entity]]));
    else if (known === undefined) ofType.set(entity.id, entity);
    return known;
  }

  /** Whether a file has it, or it needs no file. */
  exists(type: string, id: string): boolean {
    if (type === "Principal") return isPrincipalId(id);
    return this.get(type, id) !== undefined || this.#schema.types.get(type)?.ids?.has(id) === true;
  }
}

function* identityProblems(
  entities: readonly Entity[],
  set: EntitySet,
  principalType: string | undefined,
): Generator<Found> {
  for (const entity of entities) {
    const { type, id } = entity;
    const first = set.add(entity);
    if (first !== undefined) yield { entity, message: `${describeUid([type, id])} is there already, in ${first.file}` };
    if (type !== principalType || isPrincipalId(id)) continue;
    yield { entity, message: `no principal has the id ${JSON.stringify(id)}`, hint: 'write "<tenant>/<principal>"' };
  }
}

function* missingProblems(entities: readonly Entity[], set: EntitySet): Generator<Found> {
  for (const entity of entities) {
    const isMissing = ([type, id]: EntityUid) => !set.exists(type, id);
    const missing = entity.parents.find(isMissing) ?? entity.references.find(isMissing);
    if (missing === undefined) continue;
    const message = `${describeUid([entity.type, entity.id])} refers to ${describeUid(missing)}, which no file has`;
    yield { entity, message };
  }
}

function isPrincipalId(id: string): boolean {
  const slash = id.indexOf("/");
  return (
    slash > 0 && parseTenantId(id.slice(0, slash)) !== undefined && parsePrincipalId(id.slice(slash + 1)) !== undefined
  );
}

/** The first cycle, or the first entity with too many ancestors. Visits each entity once. */
function hierarchyProblems(entities: readonly Entity[], set: EntitySet): readonly Found[] {
  /** Ancestors of each entity that has children, itself included; undefined during its visit. */
  const known = new Map<Entity, ReadonlySet<Entity> | undefined>();
  const path: Entity[] = [];
  for (const { parents } of entities) {
    for (const parent of set.each(parents)) if (!known.has(parent)) path.push(parent);
    while (path.length > 0) {
      const current = path.at(-1) as Entity;
      if (known.get(current) !== undefined) {
        path.pop();
        continue;
      }
      known.set(current, undefined);
      const above = set.each(current.parents);
      const next = above.find((parent) => !known.has(parent));
      if (next !== undefined) {
        path.push(next);
        continue;
      }
      const what = describeUid([current.type, current.id]);
      if (above.some((parent) => known.get(parent) === undefined)) {
        return [{ entity: current, message: `${what} is its own ancestor` }];
      }
      const within = new Set(above.flatMap((parent) => [...(known.get(parent) as ReadonlySet<Entity>)]));
      if (within.size > maximumAncestors) {
        return [{ entity: current, message: `${what} has more than ${maximumAncestors} ancestors` }];
      }
      known.set(current, within.add(current));
      path.pop();
    }
  }
  // Entities without children are in no cycle.
  for (const entity of entities) {
    if (entity.parents.length === 0 || known.has(entity)) continue;
    const above = set.each(entity.parents).map((parent) => known.get(parent) as ReadonlySet<Entity>);
    const [first] = above;
    const size = above.length === 1 ? (first?.size ?? 0) : new Set(above.flatMap((it) => [...it])).size;
    if (size <= maximumAncestors) continue;
    const message = `${describeUid([entity.type, entity.id])} has more than ${maximumAncestors} ancestors`;
    return [{ entity, message }];
  }
  return [];
}

/** Cedar's problems with values that only it can parse. */
function cedarProblems(entities: readonly Entity[], { schema }: DeclaredEntities): readonly Found[] {
  for (const entity of entities) {
    if (!entity.hasExtensions) continue;
    const { type, id, text } = entity;
    const json = { ...(JSON.parse(text) as EntityJson), uid: { type, id }, parents: [] };
    const answer = cedar().checkParseEntities({ entities: [json], schema: `${schema}\nentity Principal;` });
    if (answer.type === "failure") {
      return answer.errors.map(({ message }) => ({ entity, message: `${describeUid([type, id])}: ${message}` }));
    }
  }
  return [];
}
