/** Parses a file of entities in Cedar's JSON: a list of `{"uid": …, "attrs": {…}, "parents": […], "tags": {…}}`. */
import type { EntitySchema, EntityType } from "../model/entity-types.ts";
import {
  describeUid,
  type EntityUid,
  isObject,
  type JsonObject,
  type ReadingNotes,
  readMembers,
  readText,
  readUid,
  readValue,
  WrongValue,
} from "../model/entity-values.ts";
import type { PolicyProblem } from "../model/problem.ts";

/** An entity of a file. Kept small, because there may be very many. */
export interface Entity {
  readonly type: string;
  readonly id: string;
  /** JSON of its `attrs`, `parents` and `tags`, the values in explicit form. */
  readonly text: string;
  readonly parents: readonly EntityUid[];
  /** Entities that its values refer to. */
  readonly references: readonly EntityUid[];
  readonly hasExtensions: boolean;
  readonly file: string;
  /** Position in the list of its file, from 0. */
  readonly position: number;
}

/** Most problems of a file that are reported one by one. */
const maximumNamed = 20;

/** Parses the text of a file. Entities with problems are left out. */
export function readEntityFile(
  file: string,
  text: string,
  schema: EntitySchema,
): { readonly entities: readonly Entity[]; readonly problems: readonly PolicyProblem[] } {
  const format = "a list of entities in Cedar's JSON format, each with uid, attrs and parents";
  let list: unknown;
  try {
    list = JSON.parse(text);
  } catch (error) {
    return { entities: [], problems: [{ file, message: `is not JSON: ${(error as Error).message}`, hint: format }] };
  }
  if (!Array.isArray(list)) return { entities: [], problems: [{ file, message: "is not a list", hint: format }] };
  const entities: Entity[] = [];
  const problems: PolicyProblem[] = [];
  let members = 0;
  let wrong = 0;
  for (const [position, item] of list.entries()) {
    const notes: ReadingNotes = { members: 0, references: [], hasExtensions: false };
    try {
      entities.push(readEntity(item, schema, notes, file, position));
    } catch (error) {
      if (!(error instanceof WrongValue)) throw error;
      if (++wrong <= maximumNamed) problems.push({ file, line: lineOfElement(text, position), message: error.message });
    }
    members += notes.members;
  }
  if (wrong > maximumNamed) problems.push({ file, message: `and ${wrong - maximumNamed} more entities are wrong` });
  // JSON parsers keep the last of two members with one name, which may not be the intended one.
  if (wrong === 0 && countMembers(text) !== members) {
    problems.push({ file, message: "an object has two members with the same name", hint: "remove one of them" });
  }
  return { entities, problems };
}

function readEntity(item: unknown, schema: EntitySchema, notes: ReadingNotes, file: string, position: number): Entity {
  if (!isObject(item)) throw new WrongValue("must be an entity: an object with uid, attrs and parents");
  const uid = readUid(item.uid, "uid", notes);
  const what = describeUid(uid);
  const names = Object.keys(item);
  const unknown = names.find((name) => !entityMembers.includes(name));
  if (unknown !== undefined) throw new WrongValue(`${what} has ${unknown}; known: ${entityMembers.join(", ")}`);
  notes.members += names.length;
  const type = typeOf(uid, schema);
  if (!isObject(item.attrs)) throw new WrongValue(`${what}: attrs must be an object`);
  if (!Array.isArray(item.parents)) throw new WrongValue(`${what}: parents must be a list`);
  const attrs = readMembers(type.members, item.attrs, what, notes);
  const parents = item.parents.map((parent) => readParent(parent, type, what, notes));
  const tags = item.tags === undefined ? undefined : readTags(item.tags, type, what, notes);
  const { references, hasExtensions } = notes;
  const text = JSON.stringify({ attrs, parents, tags });
  return { type: uid[0], id: uid[1], text, parents, references, hasExtensions, file, position };
}

const entityMembers: readonly string[] = ["uid", "attrs", "parents", "tags"];

function typeOf([name, id]: EntityUid, { namespace, types }: EntitySchema): EntityType {
  const type = types.get(name);
  const what = describeUid([name, id]);
  if (type === undefined) {
    throw new WrongValue(
      `${what} is of a type that the schema does not have; ${namespace} has ${[...types.keys()].join(", ")}`,
    );
  }
  if (type.ids !== undefined) throw new WrongValue(`${what} is listed by the schema, and must not be in a file`);
  return type;
}

function readParent(value: unknown, type: EntityType, what: string, notes: ReadingNotes): EntityUid {
  const parent = readUid(value, `a parent of ${what}`, notes);
  if (!type.parents.has(parent[0])) {
    throw new WrongValue(
      `${what} cannot be in ${describeUid(parent)}: the schema says in what entities of its type are`,
    );
  }
  return parent;
}

function readTags(value: unknown, { tags: type }: EntityType, what: string, notes: ReadingNotes): JsonObject {
  if (!isObject(value)) throw new WrongValue(`${what}: tags must be an object`);
  const tags = Object.entries(value).map(([name, given]) => {
    if (type === undefined) throw new WrongValue(`${what} has tags, but its type has none`);
    notes.members++;
    return [readText(name, `a tag of ${what}`), readValue(type, given, `the tag ${name} of ${what}`, notes)] as const;
  });
  return Object.fromEntries(tags);
}

/** Facts about valid JSON text that its parsed value does not show. */

/** Counts the members of all objects in the text, duplicates included. */
export function countMembers(text: string): number {
  let count = 0;
  for (let at = text.indexOf('"'); at >= 0; ) {
    let next = endOfString(text, at) + 1;
    while (isSpace(text.charCodeAt(next))) next++;
    if (text[next] === ":") count++;
    at = text.indexOf('"', next);
  }
  return count;
}

/** Line, from 1, on which an element of the text's list begins; of the last one if there are fewer. */
export function lineOfElement(text: string, position: number): number {
  let line = 1;
  let depth = 0;
  let commas = 0;
  for (let at = 0; at < text.length; at++) {
    const found = text[at] as string;
    if (found === "\n") line++;
    if (isSpace(text.charCodeAt(at))) continue;
    if (depth === 1 && found === ",") commas++;
    else if (depth === 1 && commas === position) return line;
    if (found === '"') at = endOfString(text, at);
    else if (found === "[" || found === "{") depth++;
    else if (found === "]" || found === "}") depth--;
  }
  return line;
}

/** Index of the closing quotation mark. */
function endOfString(text: string, start: number): number {
  let end = text.indexOf('"', start + 1);
  while (isEscaped(text, end)) end = text.indexOf('"', end + 1);
  return end < 0 ? text.length : end;
}

function isEscaped(text: string, at: number): boolean {
  let first = at;
  while (text[first - 1] === "\\") first--;
  return (at - first) % 2 === 1;
}

function isSpace(code: number): boolean {
  return code === 32 || code === 10 || code === 13 || code === 9;
}
