/**
 * A manifest's declarations of callers' attributes and of the organisation's entities, as
 * docs/how-to/use-caller-attributes.md and docs/how-to/use-entities.md show them. The path of a claim is a text with
 * dots, or a list if a name itself has dots. Defaults are the attribute's own name, and `required: false`.
 */
import type { Node } from "yaml";
import { type AttributeDeclaration, type AttributeDeclarations, attributeTypes } from "../../base/caller.ts";
import { namePattern } from "../guidance/obligations.ts";
import { type DeclaredEntities, referenceKinds } from "../model/entities.ts";
import { principalMembers } from "../model/inputs.ts";
import { type ManifestNode, type ManifestReader, textOf, textsOf, wordOf } from "./manifest-reader.ts";

const maximumAttributes = 32;
/** Most members of the path to a claim, and most characters of each. */
const maximumDepth = 8;
const maximumClaimName = 256;
/** Cedar's reserved words, which cannot be member names after a dot. */
const reservedWords: readonly string[] = ["true", "false", "if", "then", "else", "in", "is", "like", "has"];

/** Undefined without a declaration, and, after reporting a problem, if it is invalid. */
export function readCallerAttributes(reader: ManifestReader, node: ManifestNode): AttributeDeclarations | undefined {
  if (node === undefined) return undefined;
  const what = "caller_attributes";
  const members = [...reader.members(node, what)];
  if (members.length > maximumAttributes) reader.problem(node, `${what} has more than ${maximumAttributes} attributes`);
  const declared = members.flatMap(([name, value]): readonly (readonly [string, AttributeDeclaration])[] => {
    if (!namePattern.test(name) || reservedWords.includes(name) || principalMembers.includes(name)) {
      const hint = `lowercase letters, digits and underscores; no word of Cedar's, and not ${principalMembers.join(", ")}`;
      reader.problem(value ?? node, `${what} cannot have the name ${JSON.stringify(name)}`, hint);
      return [];
    }
    const declaration = readDeclaration(reader, value, name, `${what}.${name}`);
    return declaration === undefined ? [] : [[name, declaration]];
  });
  return declared.length === 0 ? undefined : Object.fromEntries(declared);
}

function readDeclaration(
  reader: ManifestReader,
  node: Node | null,
  name: string,
  what: string,
): AttributeDeclaration | undefined {
  const members = reader.members(node, what, ["type", "claim", "required"]);
  const type = wordOf(attributeTypes, members.get("type"));
  if (type === undefined) {
    reader.problem(members.get("type") ?? node, `${what}.type must be one of ${attributeTypes.join(", ")}`);
  }
  const isRequired = members.has("required") ? wordOf(["true", "false"], members.get("required")) : "false";
  if (isRequired === undefined) reader.problem(members.get("required"), `${what}.required must be true or false`);
  const claim = members.has("claim") ? claimPath(members.get("claim")) : [name];
  if (claim === undefined) {
    const hint = `at most ${maximumDepth} names, joined by dots or as a list; each of 1 to ${maximumClaimName} characters`;
    reader.problem(members.get("claim"), `${what}.claim must name a claim`, hint);
  }
  if (type === undefined || isRequired === undefined || claim === undefined) return undefined;
  return { type, claim, required: isRequired === "true" };
}

function claimPath(node: ManifestNode): readonly string[] | undefined {
  const names = textsOf(node) ?? textOf(node).split(".");
  const isPath = names.length > 0 && names.length <= maximumDepth;
  return isPath && names.every((name) => name.length > 0 && name.length <= maximumClaimName) ? names : undefined;
}

/** Names of the files, and the types that requests refer to. */
export type EntitiesMember = Pick<DeclaredEntities, "schemaFile" | "references"> & {
  readonly files: readonly string[];
};

const maximumFiles = 64;
const filePattern = /^[A-Za-z0-9][\w.-]{0,127}$/;
const typePattern = /^[A-Za-z_]\w*(?:::[A-Za-z_]\w*)+$/;

/** Undefined without a declaration, and, after reporting a problem, if it is invalid. */
export function readDeclaredEntities(reader: ManifestReader, node: ManifestNode): EntitiesMember | undefined {
  if (node === undefined) return undefined;
  const before = reader.problems.length;
  const members = reader.members(node, "entities", ["schema", "files", ...referenceKinds]);
  const schemaFile = textOf(members.get("schema"));
  if (!filePattern.test(schemaFile) || !/\.cedarschema$/.test(schemaFile) || schemaFile === "schema.cedarschema") {
    const hint = "a file beside the manifest, such as org.cedarschema; schema.cedarschema is the copy of the service's";
    reader.problem(members.get("schema") ?? node, "entities.schema must name a *.cedarschema file", hint);
  }
  const list = members.get("files");
  const files = textsOf(list) ?? [];
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
