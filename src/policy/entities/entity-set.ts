/** Judges all entities of a directory together, and writes them down for `entity-table.ts`. */
import { checkParseEntities, type TypeAndId } from "@cedar-policy/cedar-wasm/nodejs";
import { parsePrincipalId, parseTenantId } from "../../base/ids.ts";
import type { PolicyProblem } from "../load/problem.ts";
import { type Entity, readEntityFile } from "./entity-file.ts";
import { type DeclaredEntities, type EntitySchema, readEntitySchema } from "./entity-types.ts";
import { describeUid, type EntityUid, keyOf } from "./entity-values.ts";
import { lineOfElement } from "./json-text.ts";

/** Bytes of all files, and entities in them. */
export const maximumEntityBytes = 32 * 1024 * 1024;
const maximumEntities = 250_000;
/** Entities that one can be in, directly or not: each goes into every request that refers to it. */
const maximumAncestors = 256;
/** Problems that are named one by one. */
const maximumNamed = 20;

/** All entities, or all that is wrong with them. */
export interface JoinedEntities {
  /** One entity a line, see `writeEntity`. Empty where there are problems. */
  readonly lines: string;
  readonly problems: readonly PolicyProblem[];
  /** Whether the schema is good. */
  readonly hasSchema: boolean;
  /** Whether there is such an entity, as far as there are no problems. */
  readonly exists: (uid: TypeAndId) => boolean;
}

/** Reads and judges all entities that are declared. Does not throw. */
export function joinEntities(declared: DeclaredEntities): JoinedEntities {
  const { schema, problems: wrong } = readEntitySchema(declared);
  if (schema === undefined) return { lines: "", problems: wrong, hasSchema: false, exists: () => false };
  const read = Object.entries(declared.files).map(([file, text]) => readEntityFile(file, text, schema));
  const entities = read.flatMap((part) => part.entities);
  const byKey = new Map<string, Entity>();
  const problems = read.flatMap((part) => part.problems);
  if (entities.length > maximumEntities) {
    problems.push({ file: declared.schemaFile, message: `there are more than ${maximumEntities} entities` });
  }
  if (problems.length === 0) problems.push(...problemsTogether(entities, byKey, schema, declared));
  return {
    lines: problems.length > 0 ? "" : entities.map(writeEntity).join("\n"),
    problems,
    hasSchema: true,
    exists: ({ type, id }) => exists([type, id], byKey, schema),
  };
}

/** Key, a tab, and the rest: without a line break, as JSON escapes them. */
function writeEntity({ uid: [type, id], attrs, parents, tags }: Entity): string {
  return `${keyOf(type, id)}\t${JSON.stringify({ attrs, parents, tags })}`;
}

interface Found {
  readonly entity: Entity;
  readonly message: string;
  readonly hint?: string;
}

/** What is wrong with entities that are good one by one. Fills the map of them. */
function problemsTogether(
  entities: readonly Entity[],
  byKey: Map<string, Entity>,
  schema: EntitySchema,
  declared: DeclaredEntities,
): readonly PolicyProblem[] {
  const found = [...identityProblems(entities, byKey, declared.references.principal)];
  found.push(...missingProblems(entities, byKey, schema));
  if (found.length === 0) found.push(...hierarchyProblems(byKey), ...cedarProblems(entities, declared));
  return found.slice(0, maximumNamed).map(({ entity: { file, position }, message, hint }) => {
    const line = lineOfElement(declared.files[file] as string, position);
    return { file, line, message, ...(hint !== undefined && { hint }) };
  });
}

function* identityProblems(
  entities: readonly Entity[],
  byKey: Map<string, Entity>,
  principalType: string | undefined,
): Generator<Found> {
  for (const entity of entities) {
    const [type, id] = entity.uid;
    const first = byKey.get(keyOf(type, id));
    if (first === undefined) byKey.set(keyOf(type, id), entity);
    else yield { entity, message: `${describeUid(entity.uid)} is there already, in ${first.file}` };
    if (type !== principalType || isPrincipalId(id)) continue;
    yield { entity, message: `no principal has the id ${JSON.stringify(id)}`, hint: 'write "<tenant>/<principal>"' };
  }
}

function missingProblems(
  entities: readonly Entity[],
  byKey: ReadonlyMap<string, Entity>,
  schema: EntitySchema,
): readonly Found[] {
  return entities.flatMap((entity) => {
    const missing = [...entity.parents, ...entity.references].find((uid) => !exists(uid, byKey, schema));
    if (missing === undefined) return [];
    return [{ entity, message: `${describeUid(entity.uid)} refers to ${describeUid(missing)}, which no file has` }];
  });
}

function exists([type, id]: EntityUid, byKey: ReadonlyMap<string, Entity>, { types }: EntitySchema): boolean {
  if (type === "Principal") return isPrincipalId(id);
  return byKey.has(keyOf(type, id)) || types.get(type)?.ids?.has(id) === true;
}

function isPrincipalId(id: string): boolean {
  const slash = id.indexOf("/");
  return (
    slash > 0 && parseTenantId(id.slice(0, slash)) !== undefined && parsePrincipalId(id.slice(slash + 1)) !== undefined
  );
}

/** The first cycle, or the first entity that is in too many. Goes up from each entity once. */
function hierarchyProblems(byKey: ReadonlyMap<string, Entity>): readonly Found[] {
  /** What each entity that others are in is in itself, and itself; undefined while it is looked at. */
  const known = new Map<string, ReadonlySet<string> | undefined>();
  for (const [start, entity] of byKey) {
    if (entity.parents.length === 0 || known.has(start)) continue;
    const path = [start];
    while (path.length > 0) {
      const key = path.at(-1) as string;
      const current = byKey.get(key) as Entity;
      known.set(key, undefined);
      const parents = current.parents.map(([type, id]) => keyOf(type, id)).filter((parent) => byKey.has(parent));
      const next = parents.find((parent) => !known.has(parent));
      if (next !== undefined) {
        path.push(next);
        continue;
      }
      if (parents.some((parent) => known.get(parent) === undefined)) {
        return [{ entity: current, message: `${describeUid(current.uid)} is in itself, by way of its parents` }];
      }
      const within = new Set(parents.flatMap((parent) => [...(known.get(parent) as ReadonlySet<string>)]));
      if (within.size > maximumAncestors) {
        return [
          { entity: current, message: `${describeUid(current.uid)} is in more than ${maximumAncestors} entities` },
        ];
      }
      known.set(key, within.add(key));
      path.pop();
    }
  }
  return [];
}

/** What Cedar says of values that it alone can read. */
function cedarProblems(entities: readonly Entity[], { schema }: DeclaredEntities): readonly Found[] {
  for (const entity of entities) {
    if (!entity.hasExtensions) continue;
    const { uid, attrs, tags } = entity;
    const json = { uid: { type: uid[0], id: uid[1] }, attrs, parents: [], ...(tags !== undefined && { tags }) };
    const answer = checkParseEntities({ entities: [json], schema: `${schema}\nentity Principal;` });
    if (answer.type === "failure") {
      return answer.errors.map(({ message }) => ({ entity, message: `${describeUid(uid)}: ${message}` }));
    }
  }
  return [];
}
