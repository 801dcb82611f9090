/** DPoP proofs: one key with one proof id in every tenant. */
import { randomUUID } from "node:crypto";
import { expect } from "vitest";
import { methodOn } from "../../harness/methods.ts";
import { boundTo, mintProof } from "../../harness/proofs.ts";
import { newTestKey } from "../../harness/tokens.ts";
import type { IsolationRow } from "./row.ts";
import { answerOf, type Wire, type World } from "./world.ts";

const route = "/v1/sdk/whoami";

async function proofsAreOwn(world: World, wire: Wire): Promise<void> {
  const key = newTestKey("ES256", "caller");
  const cnf = await boundTo(key);
  const tenants = world.tenants();
  const tokens = tenants.map((tenant) => world.token(tenant, { cnf }));
  const { rpcPath, verb } = methodOn(route);
  const target =
    wire.name === "REST"
      ? { method: verb, url: world.proofUrl + route }
      : { method: "POST", url: world.proofUrl + rpcPath };
  const jti = randomUUID();
  const proofs = tokens.map((accessToken) => mintProof(key, { ...target, accessToken, nowMs: Date.now() }, { jti }));
  const call = (at: number, proofAt = at) =>
    wire.callWithProof(route, undefined, {
      authorization: `DPoP ${tokens[at]}`,
      dpop: proofs[proofAt] as string,
    });
  for (const [at, tenant] of tenants.entries()) {
    const next = (at + 1) % tenants.length;
    expect(await call(at, next)).toMatchObject({ refusal: { message: "the DPoP proof is for another access token" } });
    // That the others used this id, or failed to, is nothing to this tenant.
    expect(answerOf(await call(at)).caller.tenant_id).toBe(tenant);
    expect(await call(at)).toMatchObject({ refusal: { message: "the DPoP proof was used before" } });
  }
}

export const proofRows: readonly IsolationRow[] = [
  { thing: "a used DPoP proof", tables: ["proof_uses"], check: proofsAreOwn },
];
