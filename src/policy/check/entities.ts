/** Checks all entities of a directory together, and serializes them for `entity-table.ts`. */
import type { CedarValueJson, EntityJson, TypeAndId } from "@cedar-policy/cedar-wasm/nodejs";
import { hasRepeatedMember, isObject, parseJson } from "../../base/json.ts";
import { cedar } from "../model/cedar.ts";
import {
  type DeclaredEntities,
  describeUid,
  type EntitySchema,
  type EntityType,
  keyOf,
  type ReadingNotes,
  readEntitySchema,
  readMembers,
  readText,
  readUid,
  readValue,
  WrongValue,
} from "../model/entities.ts";
import type { PolicyProblem } from "../model/problem.ts";
import { isPrincipalId } from "./reads.ts";

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
  const lineOf = (entity: Entity) => `${keyOf(entity)}\t${entity.text}`;
  return {
    lines: problems.length > 0 ? "" : entities.map(lineOf).join("\n"),
    problems,
    hasSchema: true,
    exists: (uid) => set.exists(uid),
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
  readonly #byName = new Map<string, Entity>();

  constructor(schema: EntitySchema) {
    this.#schema = schema;
  }

  get({ type, id }: TypeAndId): Entity | undefined {
    return this.#byName.get(`${type} ${id}`);
  }

  /** Adds the entity; returns the existing one if type and id are taken. */
  add(entity: Entity): Entity | undefined {
    const known = this.get(entity);
    if (known === undefined) this.#byName.set(`${entity.type} ${entity.id}`, entity);
    return known;
  }

  /** Whether a file has it, or it needs no file. */
  exists({ type, id }: TypeAndId): boolean {
    if (type === "Principal") return isPrincipalId(id);
    return this.get({ type, id }) !== undefined || this.#schema.types.get(type)?.ids?.has(id) === true;
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
    if (first !== undefined) yield { entity, message: `${describeUid(entity)} is defined already, in ${first.file}` };
    if (type !== principalType || isPrincipalId(id)) continue;
    yield { entity, message: `no principal has the id ${JSON.stringify(id)}`, hint: 'write "<tenant>/<principal>"' };
  }
}

function* missingProblems(entities: readonly Entity[], set: EntitySet): Generator<Found> {
  for (const entity of entities) {
    const isMissing = (uid: TypeAndId) => !set.exists(uid);
    const missing = entity.parents.find(isMissing) ?? entity.references.find(isMissing);
    if (missing === undefined) continue;
    const message = `${describeUid(entity)} refers to ${describeUid(missing)}, which no file has`;
    yield { entity, message };
  }
}

/** The first cycle, or the first entity with too many ancestors. Visits each entity once. */
function hierarchyProblems(entities: readonly Entity[], set: EntitySet): readonly Found[] {
  /** Each entity that has children, and its ancestors. */
  const known = new Map<Entity, ReadonlySet<Entity>>();
  const path: Entity[] = [];
  let problem: Found | undefined;
  const refuse = (entity: Entity, what: string) => {
    problem ??= { entity, message: `${describeUid(entity)} ${what}` };
  };
  const tooMany = `has more than ${maximumAncestors} ancestors`;
  const above = (entity: Entity): ReadonlySet<Entity> => {
    const sets = entity.parents.flatMap((uid) => set.get(uid) ?? []).map(withItself);
    const [first = new Set<Entity>()] = sets;
    // Joined at once: each union of two would copy all before it.
    const all = sets.length > 1 ? new Set(sets.flatMap((one) => [...one])) : first;
    if (all.size > maximumAncestors) refuse(entity, tooMany);
    return all;
  };
  const withItself = (entity: Entity): ReadonlySet<Entity> => {
    const [start = entity] = path;
    if (path.includes(entity)) refuse(path.at(-1) as Entity, "is its own ancestor");
    if (path.length > maximumAncestors) refuse(start, tooMany);
    const found = known.get(entity);
    if (found !== undefined || problem !== undefined) return found ?? new Set();
    path.push(entity);
    const within = new Set(above(entity)).add(entity);
    path.pop();
    known.set(entity, within);
    return within;
  };
  for (const entity of entities) {
    above(entity);
    if (problem !== undefined) return [problem];
  }
  return [];
}

/** Cedar's problems with values that only it can parse. */
function cedarProblems(entities: readonly Entity[], { schema }: DeclaredEntities): readonly Found[] {
  for (const entity of entities) {
    if (!entity.hasExtensions) continue;
    const { type, id, text } = entity;
    const json = { ...(parseJson(text) as EntityJson), uid: { type, id }, parents: [] };
    const answer = cedar().checkParseEntities({ entities: [json], schema: `${schema}\nentity Principal;` });
    if (answer.type === "failure") {
      return answer.errors.map(({ message }) => ({ entity, message: `${describeUid(entity)}: ${message}` }));
    }
  }
  return [];
}

// Parses a file of entities in Cedar's JSON: a list of `{"uid": …, "attrs": {…}, "parents": […], "tags": {…}}`.

/** An entity of a file. Kept small, because there may be very many. */
interface Entity extends Readonly<TypeAndId> {
  /** JSON of its `attrs`, `parents` and `tags`, the values in explicit form. */
  readonly text: string;
  readonly parents: readonly TypeAndId[];
  /** Entities that its values refer to. */
  readonly references: readonly TypeAndId[];
  readonly hasExtensions: boolean;
  readonly file: string;
  /** Position in the list of its file, from 0. */
  readonly position: number;
}

/** Parses the text of a file. Entities with problems are left out. */
function readEntityFile(
  file: string,
  text: string,
  schema: EntitySchema,
): { readonly entities: readonly Entity[]; readonly problems: readonly PolicyProblem[] } {
  const format = "a list of entities in Cedar's JSON format, each with uid, attrs and parents";
  let list: unknown;
  try {
    list = parseJson(text);
  } catch (error) {
    return { entities: [], problems: [{ file, message: `is not JSON: ${(error as Error).message}`, hint: format }] };
  }
  if (!Array.isArray(list)) return { entities: [], problems: [{ file, message: "is not a list", hint: format }] };
  const entities: Entity[] = [];
  const problems: PolicyProblem[] = [];
  let wrong = 0;
  for (const [position, item] of list.entries()) {
    const notes: ReadingNotes = { references: [], hasExtensions: false };
    try {
      entities.push(readEntity(item, schema, notes, file, position));
    } catch (error) {
      if (!(error instanceof WrongValue)) throw error;
      if (++wrong <= maximumNamed) problems.push({ file, line: lineOfElement(text, position), message: error.message });
    }
  }
  if (wrong > maximumNamed) problems.push({ file, message: `and ${wrong - maximumNamed} more entities are wrong` });
  if (wrong === 0 && hasRepeatedMember(text, list)) {
    problems.push({ file, message: "an object has two members with the same name", hint: "remove one of them" });
  }
  return { entities, problems };
}

function readEntity(item: unknown, schema: EntitySchema, notes: ReadingNotes, file: string, position: number): Entity {
  if (!isObject(item)) throw new WrongValue("must be an entity: an object with uid, attrs and parents");
  const uid = readUid(item.uid, "uid");
  const what = describeUid(uid);
  const names = Object.keys(item);
  const unknown = names.find((name) => !entityMembers.includes(name));
  if (unknown !== undefined) throw new WrongValue(`${what} has ${unknown}; known: ${entityMembers.join(", ")}`);
  const type = typeOf(uid, schema);
  if (!isObject(item.attrs)) throw new WrongValue(`${what}: attrs must be an object`);
  if (!Array.isArray(item.parents)) throw new WrongValue(`${what}: parents must be a list`);
  const attrs = readMembers(type.members, item.attrs, what, notes);
  const parents = item.parents.map((parent) => readParent(parent, type, what));
  const tags = item.tags === undefined ? undefined : readTags(item.tags, type, what, notes);
  const { references, hasExtensions } = notes;
  const text = JSON.stringify({ attrs, parents, tags });
  return { ...uid, text, parents, references, hasExtensions, file, position };
}

const entityMembers: readonly string[] = ["uid", "attrs", "parents", "tags"];

function typeOf(uid: TypeAndId, { namespace, types }: EntitySchema): EntityType {
  const type = types.get(uid.type);
  const what = describeUid(uid);
  if (type === undefined) {
    throw new WrongValue(
      `${what} is of a type that the schema does not have; ${namespace} has ${[...types.keys()].join(", ")}`,
    );
  }
  if (type.ids !== undefined) throw new WrongValue(`${what} is listed by the schema, and must not be in a file`);
  return type;
}

function readParent(value: unknown, type: EntityType, what: string): TypeAndId {
  const parent = readUid(value, `a parent of ${what}`);
  if (!type.parents.has(parent.type)) {
    throw new WrongValue(
      `${what} cannot be in ${describeUid(parent)}: the schema says in what entities of its type are`,
    );
  }
  return parent;
}

function readTags(
  value: unknown,
  { tags: type }: EntityType,
  what: string,
  notes: ReadingNotes,
): Readonly<Record<string, CedarValueJson>> {
  if (!isObject(value)) throw new WrongValue(`${what}: tags must be an object`);
  const tags = Object.entries(value).map(([name, given]) => {
    if (type === undefined) throw new WrongValue(`${what} has tags, but its type has none`);
    return [readText(name, `a tag of ${what}`), readValue(type, given, `the tag ${name} of ${what}`, notes)] as const;
  });
  return Object.fromEntries(tags);
}

const jsonString = /"[^"\\]*(?:\\.[^"\\]*)*"/y;

/** Line, from 1, on which an element of the list begins, of the last one if there are fewer; the text is valid JSON. */
function lineOfElement(text: string, position: number): number {
  let line = 1;
  let depth = 0;
  let commas = 0;
  for (let at = 0; at < text.length; at++) {
    const found = text[at] as string;
    if (found === "\n") line++;
    if (" \t\r\n".includes(found)) continue;
    if (depth === 1 && found === ",") commas++;
    else if (depth === 1 && commas === position) return line;
    if (found === "[" || found === "{") depth++;
    else if (found === "]" || found === "}") depth--;
    else if (found === '"') {
      jsonString.lastIndex = at;
      at += (jsonString.exec(text)?.[0].length ?? 1) - 1;
    }
  }
  return line;
}
