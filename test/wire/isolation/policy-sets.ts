/** Policies for the tenants of the matrix: one set for everybody, and for some tenants each its own. */
import { writeFiles } from "../../harness/folder.ts";
import { namedLookAlikes } from "./names.ts";

/** Tenants with a set of their own, in which one policy carries the number of the tenant. */
export const tenantsWithSets: readonly string[] = [...namedLookAlikes("7001"), "constructor"];
/** Tenants that have the set for everybody, though objects of the language have members of their names. */
export const tenantsWithoutSets = ["toString", "hasOwnProperty"] as const;

/** Id of the policy that allows everything to the tenant. */
export const policyOf = (tenant: string) =>
  tenantsWithSets.includes(tenant) ? `own-${tenantsWithSets.indexOf(tenant)}` : "everybody";

/** Principal of every tenant. */
const principal = "payroll-service";
/** What kind of resource the policies about people are about. */
export const personKind = "person";
/** Id of the platform's policy that knows the tenant's principal, and no other of the same name. */
export const personPolicyOf = (tenant: string) => `person-${tenantsWithSets.indexOf(tenant)}`;

/** What kind of resource the policy about registered facts is about. */
export const factsKind = "facts";

const schema = `namespace Org {
  entity Group;
  entity Person in [Group] = { "tenant": String };
}
`;
const people = tenantsWithSets.flatMap((tenant) => {
  const group = { type: "Org::Group", id: personPolicyOf(tenant) };
  const person = { type: "Org::Person", id: `${tenant}/${principal}` };
  return [
    { uid: group, attrs: {}, parents: [] },
    { uid: person, attrs: { tenant }, parents: [group] },
  ];
});
const personPolicies = [
  ...tenantsWithSets.map((tenant) => {
    const id = personPolicyOf(tenant);
    return `@id("${id}") permit (principal, action, resource) when
      { context.claimed.resource.kind == "${personKind}" && principal has entity && principal.entity in Org::Group::"${id}" };`;
  }),
  `@id("mixed-up") forbid (principal, action, resource)
   when { principal has entity && principal.entity.tenant != principal.tenant };`,
  // What is registered is read, and told.
  `@id("told") @obligation("tell; owner = registered.attributes.notify; key = registered.key_reference")
   permit (principal, action, resource)
   when { context.claimed.resource.kind == "${factsKind}" && principal has team && context has registered &&
     context.registered has key_reference && context.registered.attributes.hasTag("notify") };`,
  // What is registered is read, of artifacts that a caller asks about for another principal.
  `@id("delegated") permit (principal, action, resource)
   when { context has on_behalf_of && context.on_behalf_of.id == "alice" && context has registered };`,
].join("\n");

const permit = (id: string) => `@id("${id}")\n@alert("${id}")\npermit (principal, action, resource);\n`;

/** Writes the policy directory. */
export function writePolicies(folder: string): void {
  const sets = [
    ["platform", "platform"],
    ["default", "everybody"],
    ...tenantsWithSets.map((tenant) => [policyOf(tenant), policyOf(tenant)] as const),
  ] as const;
  const tenants = Object.fromEntries([
    ["*", "default"],
    ...tenantsWithSets.map((tenant) => [tenant, policyOf(tenant)]),
  ]);
  const entities = { schema: "org.cedarschema", files: ["people.json"], principal: "Org::Person" };
  const declared = {
    entities,
    caller_attributes: { team: { type: "text" } },
    disclosable: ["attributes.notify", "key_reference"],
  };
  writeFiles(folder, {
    ...Object.fromEntries(sets.map(([set, id]) => [`${set}/set.cedar`, permit(id)])),
    "platform/people.cedar": personPolicies,
    "org.cedarschema": schema,
    "people.json": JSON.stringify(people),
    "manifest.json": JSON.stringify({ platform: "platform", tenants, ...declared }),
  });
}
