/** An issuer with many tenants, and a long-lived token of each. */
import { startStaticIssuer } from "../test/harness/issuer.ts";
import { claimsOf, mintToken, newTestKey } from "../test/harness/tokens.ts";

/** Scopes of every token. */
export const scope = "platform-api.access policy.read keys.use artifacts.write evidence.write";
const lifetimeSeconds = 86_400;

/** An issuer, and a function that mints its long-lived tokens with these claims. */
export async function startMinter() {
  const key = newTestKey("ES256", "key-1");
  const issuer = await startStaticIssuer([key.publicJwk]);
  const exp = Math.floor(Date.now() / 1_000) + lifetimeSeconds;
  const mint = (claims: object) => mintToken(key, claimsOf(issuer.url, Date.now(), { scope, exp, ...claims }));
  return { issuer, mint };
}

export type Tenants = Awaited<ReturnType<typeof startTenants>>;

/** Starts it for `tenant-0` to `tenant-<number - 1>`. */
export async function startTenants(number: number) {
  const { issuer, mint } = await startMinter();
  const ids = Array.from({ length: number }, (_, at) => `tenant-${at}`);
  const tokens = new Map(ids.map((tenant) => [tenant, mint({ tenant_id: tenant })]));
  return {
    issuer,
    ids,
    tokenOf(tenant: string): string {
      const token = tokens.get(tenant);
      if (token === undefined) throw new Error(`there is no tenant ${tenant}`);
      return token;
    },
    stop: () => issuer.stop(),
  };
}
