/** Who signs in to the console of a gateway. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { defaultClient } from "../../dev/issuer.ts";
import { formatOpsCredentials, hashOpsToken } from "../../src/credentials/ops-credentials.ts";

/** A client for each tenant, with the tenant's name, that may search its log. */
export function searchingClients(...tenants: readonly string[]) {
  const scopes = [...defaultClient().scopes, "ledger.search"];
  return tenants.map((tenantId) => ({ ...defaultClient(), clientId: tenantId, tenantId, scopes }));
}

/** Writes the file of operators, by name. Resolves with its path. */
export async function writeOperators(folder: string, tokens: Readonly<Record<string, string>>): Promise<string> {
  const path = join(folder, "operators");
  const operators = Object.entries(tokens).map(([name, token]) => ({ name, hash: hashOpsToken(token) }));
  await writeFile(path, formatOpsCredentials(operators), { mode: 0o600 });
  return path;
}
