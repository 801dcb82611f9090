/**
 * Paths at which policies read entities of the organisation. Each reference is made of inputs, and present if a file
 * has the entity; that of labels is always present, as a set:
 *
 * | as policies read it                               | is                                                  | made of                |
 * |---------------------------------------------------|-----------------------------------------------------|------------------------|
 * | `context.claimed.label_set`                       | `LabelSet`, in every label and all that those are in | `labels`               |
 * | `context.claimed.workload.application_entity` ?   | the application                                     | `workload.application` |
 * | `context.claimed.key_entity` ?                    | the key                                             | `key_reference`        |
 * | `context.registered.label_set`, `.label_set_ever`, `.application_entity` ?, `.key_entity` ? | the same of what was registered | `registered.…` |
 * | `principal.entity` ?                              | the caller, by `<tenant>/<principal>`               | the principal's id     |
 */
import type { DeclaredEntities, EntitySchema, ReferenceKind, ValueType } from "./entity-types.ts";
import { readEntitySchema } from "./entity-types.ts";

export interface EntityReference {
  /** Path under which policies read it. */
  readonly path: string;
  readonly kind: ReferenceKind;
  /** Full type name of the referenced entities. */
  readonly type: string;
  /** Names of the inputs that it is made of. */
  readonly reads: readonly string[];
}

const rows: readonly Omit<EntityReference, "type">[] = [
  { path: "context.claimed.label_set", kind: "labels", reads: ["labels"] },
  { path: "context.claimed.workload.application_entity", kind: "application", reads: ["workload.application"] },
  { path: "context.claimed.key_entity", kind: "key_reference", reads: ["key_reference"] },
  { path: "context.registered.label_set", kind: "labels", reads: ["registered.labels"] },
  { path: "context.registered.label_set_ever", kind: "labels", reads: ["registered.labels_ever"] },
  { path: "context.registered.application_entity", kind: "application", reads: ["registered.application"] },
  { path: "context.registered.key_entity", kind: "key_reference", reads: ["registered.key_reference"] },
  { path: "principal.entity", kind: "principal", reads: ["caller.tenant_id", "caller.principal_id"] },
];

/** Member of the principal for its reference; no attribute may have this name. */
export const principalReference = "entity";

/** The references of a directory. */
export function entityReferences(declared: DeclaredEntities | undefined): readonly EntityReference[] {
  return rows.flatMap((row) => {
    const type = declared?.references[row.kind];
    return type === undefined ? [] : [{ ...row, type }];
  });
}

/** Summary of one attribute over a set of labels. */
export interface LabelSummary {
  /** Name of the member of the set. */
  readonly name: string;
  /** Name of the attribute. */
  readonly of: string;
  readonly kind: "max" | "min" | "all";
}

/** The largest and the smallest of each whole number, and all of each text. */
export function labelSummaries(schema: EntitySchema, labelType: string): readonly LabelSummary[] {
  const members = [...(schema.types.get(labelType)?.members ?? [])].sort(([a], [b]) => (a < b ? -1 : 1));
  return members.flatMap(([of, { type }]) => kindsOf(type).map((kind) => ({ name: `${kind}_${of}`, of, kind })));
}

function kindsOf(type: ValueType): readonly LabelSummary["kind"][] {
  if (type.kind === "whole_number") return ["max", "min"];
  const isText = type.kind === "text" || (type.kind === "set" && type.of.kind === "text");
  return isText ? ["all"] : [];
}

/** Parts of the schema that references add. Empty if there are none. */
export interface ReferenceTypes {
  readonly ofPrincipal: string;
  readonly ofWorkload: string;
  readonly ofClaimed: string;
  readonly ofRegistered: string;
  readonly declarations: string;
}

/** An invalid schema adds nothing; its problems are reported elsewhere. */
export function referenceTypes(declared: DeclaredEntities | undefined): ReferenceTypes {
  const { schema } = declared === undefined ? {} : readEntitySchema(declared);
  if (declared === undefined || schema === undefined) {
    return { ofPrincipal: "", ofWorkload: "", ofClaimed: "", ofRegistered: "", declarations: "" };
  }
  const { labels, application, key_reference: key, principal } = declared.references;
  const ofKey = key === undefined ? "" : `  "key_entity"?: ${key},\n`;
  const ofApplication = application === undefined ? "" : `  "application_entity"?: ${application},\n`;
  const sets = (...names: readonly string[]) =>
    labels === undefined ? "" : names.map((name) => `  "${name}": LabelSet,\n`).join("");
  return {
    ofPrincipal: principal === undefined ? "" : `  "${principalReference}"?: ${principal},\n`,
    ofWorkload: application === undefined ? "" : `, "application_entity"?: ${application}`,
    ofClaimed: `${sets("label_set")}${ofKey}`,
    ofRegistered: `${sets("label_set", "label_set_ever")}${ofApplication}${ofKey}`,
    declarations: `${labels === undefined ? "" : labelSetType(schema, labels)}\n${declared.schema.trimEnd()}\n`,
  };
}

function labelSetType(schema: EntitySchema, label: string): string {
  const members = labelSummaries(schema, label).map(
    ({ name, kind }) => `  ${JSON.stringify(name)}?: ${kind === "all" ? "Set<String>" : "Long"},\n`,
  );
  return `
// Labels together. They are in all that any of them is in.
entity LabelSet in [${label}] = {
  // Those that the organisation knows, and whether there are others.
  "known": Set<${label}>,
  "unknown": Bool,
  // What all of them are, or are in. Empty if one is unknown.
  "common": Set<${label}>,
  // Of their attributes: the largest and the smallest number, and all texts. Absent if one of them is unknown; numbers
  // also if none of them has one.
${members.join("")}};
`;
}
