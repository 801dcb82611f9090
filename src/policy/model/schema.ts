/**
 * The Cedar schema: the inputs of the table (`input-table.ts`) with their types. The service creates it, because the
 * service creates the inputs; the manifest's declarations are added here, and nowhere else. A policy that reads an input
 * without a source would type-check and then never see a value.
 *
 * `Resource` has one id, so that `resource == Resource::"my-document"` is refused instead of never matching: the
 * caller's claims about the resource are under `context.claimed.resource`.
 */
import { cedarVersion } from "./cedar.ts";
import type { PolicyAction } from "./decision.ts";
import { type DeclaredEntities, referenceMembers, referenceTypes } from "./entities.ts";
import {
  claimedRows,
  isRow,
  onBehalfOfRows,
  principalRows,
  type Row,
  type Rows,
  registeredRows,
  type ValueKind,
} from "./input-table.ts";
import type { DeclaredInputs } from "./inputs.ts";

/** Action groups of the schema, for `action in Action::"dataOperation"`. */
export const actionGroups: Readonly<Record<string, readonly PolicyAction[]>> = {
  dataOperation: ["protect", "access", "rewrap"],
  keyOperation: ["wrap", "unwrap", "rewrapKey"],
};

export const policyActions: readonly PolicyAction[] = Object.values(actionGroups).flat();

/**
 * Version of the evaluation: Cedar's, and that of our rules (inputs, layers, merge). Raise the second if the same
 * bundle could answer the same question differently.
 */
export const engineVersion = `cedar ${cedarVersion}, rules 4`;

const cedarTypes: Readonly<Record<ValueKind, string>> = {
  text: "String",
  set_of_text: "Set<String>",
  whole_number: "Long",
  yes_no: "Bool",
  tags: "Attributes",
};

/** Text of the schema for policies of a directory with these declarations. */
export function schemaFor(declared: DeclaredInputs): string {
  return schemaText(attributesOf(declared), declared.entities);
}

function attributesOf({ callerAttributes = {} }: DeclaredInputs): string {
  const members = Object.entries(callerAttributes)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, { type, required }]) => `  "${name}"${required ? "" : "?"}: ${cedarTypes[type]},\n`);
  return members.length === 0 ? "" : `  // Attributes that the manifest declares.\n${members.join("")}`;
}

/** The schema for a directory without declarations: text of `schema.cedarschema`. */
export const publishedSchema = schemaText("", undefined);

/** Whether the text is the published schema, or that of these declarations, with any line ends. */
export function isSchemaCopy(text: string, declared: DeclaredInputs): boolean {
  return [publishedSchema, schemaFor(declared)].some((schema) => withNewlines(schema) === withNewlines(text));
}

function withNewlines(text: string): string {
  return text.replaceAll("\r\n", "\n");
}

/** Lines of a record's members; `added` is the end of records within it, by their names. */
function membersOf(rows: Rows, added: Readonly<Record<string, string>> = {}): string {
  return Object.entries(rows)
    .map(([name, row]) => {
      const { says } = isRow(row) ? row : {};
      return `${says === undefined ? "" : `  // ${says}\n`}  ${memberOf(name, row, added[name])},\n`;
    })
    .join("");
}

function memberOf(name: string, row: Row | Rows, added = ""): string {
  if (isRow(row)) return `"${name}"${row.optional ? "?" : ""}: ${cedarTypes[row.kind]}`;
  const members = Object.entries(row).map(([own, within]) => memberOf(own, within));
  return `"${name}": { ${members.join(", ")}${added} }`;
}

function schemaText(attributes: string, entities: DeclaredEntities | undefined): string {
  const added = (record: string) =>
    referenceMembers(entities, record)
      .map((member) => `  ${member},\n`)
      .join("");
  const workload = referenceMembers(entities, "context.claimed.workload").map((member) => `, ${member}`);
  return `// The inputs that policies may read. Made by the service: a policy directory may hold a copy, for editors, and the
// copy must be unchanged. What the manifest declares is part of the schema that its policies are checked against.

// The authenticated caller, from its credentials. Its id is "<tenant>/<principal>".
entity Principal = {
${membersOf(principalRows)}${attributes}${added("principal")}};

// What is asked about. It has one id and no attributes: what is said of the resource is in the context.
entity Resource enum ["claimed"];

// Attributes that the request claims, or that were registered: hasTag("region"), getTag("region").
entity Attributes tags String;

// What the request says of itself. None of it is authenticated.
type Claimed = {
${membersOf(claimedRows, { workload: workload.join("") })}${added("context.claimed")}};

// What this tenant's ledger has of the artifact that the request names, from when it was registered. Absent if nothing
// is known of it: test "context has registered".
type Registered = {
${membersOf(registeredRows)}${added("context.registered")}};

// The subject of the question, as the enforcement point that asks says. Absent if the caller asks for itself: test
// "context has on_behalf_of". If it is present, only permits that read it count.
type OnBehalfOf = {
${membersOf(onBehalfOfRows)}};

action dataOperation, keyOperation;

// Operations on data.
action protect, access, rewrap in [dataOperation] appliesTo {
  principal: Principal,
  resource: Resource,
  context: { "claimed": Claimed, "registered"?: Registered, "on_behalf_of"?: OnBehalfOf },
};

// Operations on keys. The key operation "rewrap" is rewrapKey.
action wrap, unwrap, rewrapKey in [keyOperation] appliesTo {
  principal: Principal,
  resource: Resource,
  context: { "claimed": Claimed, "registered"?: Registered, "on_behalf_of"?: OnBehalfOf },
};
${referenceTypes(entities)}`;
}
