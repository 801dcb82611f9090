/**
 * A manifest's declaration of the organisation's entities:
 *
 *     entities:
 *       schema: org.cedarschema       # the operator's own entity types, in one namespace
 *       files: [labels.json]          # entities in Cedar's JSON format
 *       labels: Org::Label            # optional, each: the type of the entities that labels, the workload's application,
 *       application: Org::Application #   key references and principals refer to
 *       key_reference: Org::Key
 *       principal: Org::Person
 */
import { isScalar, isSeq, type Node } from "yaml";
import { type DeclaredEntities, referenceKinds } from "../model/entity-types.ts";
import type { ManifestReader } from "./manifest-reader.ts";

/** Names of the files, and the types that requests refer to. */
export type EntitiesMember = Pick<DeclaredEntities, "schemaFile" | "references"> & {
  readonly files: readonly string[];
};

const maximumFiles = 64;
const filePattern = /^[A-Za-z0-9][\w.-]{0,127}$/;
const typePattern = /^[A-Za-z_]\w*(?:::[A-Za-z_]\w*)+$/;

/** Undefined without a declaration, and, after reporting a problem, if it is invalid. */
export function readDeclaredEntities(
  reader: ManifestReader,
  node: Node | null | undefined,
): EntitiesMember | undefined {
  if (node === undefined) return undefined;
  const before = reader.problems.length;
  const members = reader.members(node, "entities");
  reader.refuseUnknown(members, ["schema", "files", ...referenceKinds], "entities");
  const schemaFile = textOf(members.get("schema"));
  if (!filePattern.test(schemaFile) || !/\.cedarschema$/.test(schemaFile) || schemaFile === "schema.cedarschema") {
    const hint = "a file beside the manifest, such as org.cedarschema; schema.cedarschema is the copy of the service's";
    reader.problem(members.get("schema") ?? node, "entities.schema must name a *.cedarschema file", hint);
  }
  const list = members.get("files");
  const files = isSeq(list) ? list.items.map(textOf) : [];
  const isGood = (name: string) => filePattern.test(name) && name.endsWith(".json") && name !== "manifest.json";
  if (files.length === 0 || files.length > maximumFiles || !files.every(isGood) || new Set(files).size < files.length) {
    const hint = `1 to ${maximumFiles} files beside the manifest, each once`;
    reader.problem(list ?? node, "entities.files must list *.json files", hint);
  }
  const references = referenceKinds
    .filter((kind) => members.has(kind))
    .map((kind) => {
      const type = textOf(members.get(kind));
      if (!typePattern.test(type))
        reader.problem(members.get(kind), `entities.${kind} must be a type, such as Org::Label`);
      return [kind, type] as const;
    });
  return reader.problems.length > before
    ? undefined
    : { schemaFile, files, references: Object.fromEntries(references) };
}

function textOf(node: unknown): string {
  return isScalar(node) ? String(node.value) : "";
}
