/** The referenced entities in a request to Cedar. */
import type { CedarValueJson, EntityJson, TypeAndId } from "@cedar-policy/cedar-wasm/nodejs";
import type { PolicyQuery } from "../model/decision.ts";
import {
  type DeclaredEntities,
  type EntityReference,
  keyOf,
  type LabelSummary,
  labelSummaries,
  readEntitySchema,
} from "../model/entities.ts";
import type { InputCatalogue } from "../model/inputs.ts";
import type { EntityTable, KnownEntity } from "./entity-table.ts";

/** The parts of the entities that policies use. */
export interface EntityUse {
  /** Paths of the references that it reads. */
  readonly references: readonly string[];
  /** Entities of the operator's types that it names and of which Cedar reads more than the name. */
  readonly roots: readonly TypeAndId[];
  /** Most steps from one of those to a further entity. */
  readonly steps: number;
}

/** Entities of an engine, ready for reference. Undefined if its bundle has none. */
export interface EntitySource {
  readonly declared: DeclaredEntities;
  readonly table: EntityTable;
}

/** Members that policies read, and the entities behind them; no entities if there are more than a request may have. */
export function entityMembers(
  source: EntitySource | undefined,
  { references, roots, steps }: EntityUse,
  catalogue: InputCatalogue,
) {
  const used = catalogue.references.filter(({ path }) => references.includes(path));
  if (source === undefined || used.length + roots.length === 0) return { members: [], entities: () => [] };
  const { declared, table } = source;
  const single = used
    .filter(({ kind }) => kind !== "labels")
    .map((it) => ({ ...it, uid: uidReader(it, table, catalogue) }));
  const sets = used.filter(({ kind }) => kind === "labels").map((it) => labelSet(it, declared, table, catalogue));
  return {
    members: [
      ...single.map(({ path, uid }) => ({
        path,
        value: (query: PolicyQuery) => {
          const __entity = uid(query);
          return __entity && { __entity };
        },
      })),
      ...sets.map(({ path, uid }) => ({ path, value: () => ({ __entity: uid }) })),
    ],
    entities: (query: PolicyQuery) => {
      const reached = table.reach([...roots, ...single.flatMap(({ uid }) => uid(query) ?? [])], steps);
      return reached && [...reached, ...sets.flatMap(({ entity }) => entity(query))];
    },
  };
}

/** Reads the entity that the inputs name, joined by slashes; undefined if no file has it. */
function uidReader(
  { type, reads }: EntityReference,
  table: EntityTable,
  catalogue: InputCatalogue,
): (query: PolicyQuery) => TypeAndId | undefined {
  const readers = reads.map((name) => catalogue.reader(name));
  return (query) => {
    const names = readers.map((read) => read(query));
    const uid = { type, id: names.join("/") };
    return names.includes(undefined) || !table.has(uid) ? undefined : uid;
  };
}

/** The entity for a set of labels; none without labels. */
function labelSet(
  { path, type, reads }: EntityReference,
  declared: DeclaredEntities,
  table: EntityTable,
  catalogue: InputCatalogue,
) {
  const { schema } = readEntitySchema(declared);
  const summaries = schema === undefined ? [] : labelSummaries(schema, type);
  const uid: TypeAndId = { type: "LabelSet", id: path.split(".").slice(1).join(".") };
  const read = catalogue.reader(reads[0] as string);
  const entity = (query: PolicyQuery): readonly EntityJson[] => {
    const labels = read(query) as readonly string[] | undefined;
    if (labels === undefined) return [];
    const found = labels.flatMap((id) => table.get({ type, id }) ?? []);
    const unknown = found.length < labels.length;
    const within = found.map(({ uid, ancestors }) => new Map([[keyOf(uid), uid], ...ancestors]));
    const common = unknown
      ? []
      : [...(within[0] ?? [])].filter(([key, { type: of }]) => of === type && within.every((it) => it.has(key)));
    const attrs: Record<string, CedarValueJson> = {
      known: found.map((label) => ({ __entity: label.uid })),
      unknown,
      common: common.map(([, __entity]) => ({ __entity })),
      ...(unknown ? {} : summarize(found, summaries)),
    };
    const parents = new Map(within.flatMap((it) => [...it]));
    return [{ uid, attrs, parents: [...parents.values()] }];
  };
  return { path, uid, entity };
}

function summarize(labels: readonly KnownEntity[], summaries: readonly LabelSummary[]): Record<string, CedarValueJson> {
  const members = summaries.flatMap(({ name, of, kind }): readonly (readonly [string, CedarValueJson])[] => {
    const values = labels.flatMap(({ attrs }) => (Object.hasOwn(attrs, of) ? (attrs[of] as CedarValueJson) : []));
    if (kind === "all") return [[name, [...new Set(values.flat())] as string[]]];
    const numbers = values as number[];
    return numbers.length === 0 ? [] : [[name, Math[kind](...numbers)]];
  });
  return Object.fromEntries(members);
}
