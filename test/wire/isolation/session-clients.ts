/** Clients of the session route: one name in many tenants, and names that end where another tenant's begins. */
import type { TestClient } from "../../harness/sessions.ts";
import { namedLookAlikes } from "./names.ts";

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
