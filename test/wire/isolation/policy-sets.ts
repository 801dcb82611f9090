/** Policies for the tenants of the matrix: one set for everybody, and for some tenants each its own. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { namedLookAlikes } from "./names.ts";

/** Tenants with a set of their own, in which one policy carries the number of the tenant. */
export const tenantsWithSets: readonly string[] = [...namedLookAlikes("7001"), "constructor"];
/** Tenants that have the set for everybody, though objects of the language have members of their names. */
export const tenantsWithoutSets = ["toString", "hasOwnProperty"] as const;

/** Id of the policy that allows everything to the tenant. */
export const policyOf = (tenant: string) =>
  tenantsWithSets.includes(tenant) ? `own-${tenantsWithSets.indexOf(tenant)}` : "everybody";

const permit = (id: string) => `@id("${id}")\n@alert("${id}")\npermit (principal, action, resource);\n`;

/** Writes the policy directory into an empty folder. */
export function writePolicies(folder: string): void {
  const sets = new Map([
    ["platform", "platform"],
    ["default", "everybody"],
    ...tenantsWithSets.map((tenant) => [policyOf(tenant), policyOf(tenant)] as const),
  ]);
  for (const [set, id] of sets) {
    mkdirSync(join(folder, set));
    writeFileSync(join(folder, set, "set.cedar"), permit(id));
  }
  const tenants = Object.fromEntries([
    ["*", "default"],
    ...tenantsWithSets.map((tenant) => [tenant, policyOf(tenant)]),
  ]);
  writeFileSync(join(folder, "manifest.json"), JSON.stringify({ platform: "platform", tenants }));
}
