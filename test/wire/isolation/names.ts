import type { TestClient } from "../../harness/sessions.ts";

/**
 * Tenant ids that differ in what a careless key would lose: a prefix, the value of a number, letter case, separators,
 * wildcards of SQL, the last of 128 characters.
 */
export function lookAlikes(base: string): readonly string[] {
  return [
    ...namedLookAlikes(base),
    `${base}_0`,
    `${base}-0`,
    `${base}:0:0`,
    base.padEnd(127, "0"),
    base.padEnd(128, "0"),
  ];
}

/** Fewer of them, for what costs more; `npm test` takes these, and the long lane all. */
export function namedLookAlikes(base: string): readonly string[] {
  return [base, `0${base}`, `${base}0`, `${base}.0`, `${base}e0`, `${base}E0`, `${base}:0`];
}

/** What looks like a tenant id, and is none. */
export const noTenantIds = [
  "a|b",
  "a/b",
  "a\\b",
  "a b",
  "a,b",
  " a",
  "a\n",
  "a\0",
  "ä",
  "а", // Cyrillic
  "a%",
  "*",
  "",
  ":a",
  "__proto__",
  "a".repeat(129),
] as const;

const scopes = ["platform-api.access", "evidence.write"];
const client = (tenantId: string, clientId: string): TestClient => ({
  tenantId,
  clientId,
  secret: `secret of ${clientId} of ${tenantId}`.padEnd(43, "."),
  scopes,
});

/** One name in tenants that are easily taken for each other. */
export const sameNames = (wire: string) => namedLookAlikes(`8-${wire}`).map((tenant) => client(tenant, "payroll"));

/** Tenant and name, written one after the other with a colon between them, are one text for all of these. */
export const sameTexts = (wire: string) => [client(`9-${wire}`, "x:y"), client(`9-${wire}:x`, "y")];

export function sessionClientsOf(wires: readonly string[]): readonly TestClient[] {
  return wires.flatMap((wire) => [...sameNames(wire), ...sameTexts(wire)]);
}
