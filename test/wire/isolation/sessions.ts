/** Session clients and their limits; DPoP proofs, one key with one proof id in every tenant. */
import { randomUUID } from "node:crypto";
import { expect } from "vitest";
import { methodOn } from "../../harness/methods.ts";
import { boundTo, mintProof } from "../../harness/proofs.ts";
import { askOf, type TestClient, tokenOf } from "../../harness/sessions.ts";
import { newTestKey } from "../../harness/tokens.ts";
import { sameNames, sameTexts } from "./names.ts";
import { answerOf, bearer, type IsolationRow, type Wire, type World } from "./world.ts";

/** Attempts of one client from one address in a minute: `src/domain/session.ts`. */
const attemptsOfClient = 30;

const from = (address: string) => ({ "x-forwarded-for": address });

const refused = { reason: "invalid_client", message: "the client credentials are not valid", retryAfter: undefined };

/** A client gets a token of its own tenant for its own secret, and nothing for another's. */
export async function opensOwnSessions(_world: World, wire: Wire): Promise<void> {
  const address = from(wire.name === "REST" ? "192.0.2.3" : "192.0.2.4");
  for (const clients of [sameNames(wire.name), sameTexts(wire.name)]) {
    for (const [at, client] of clients.entries()) {
      const { secret } = clients[(at + 1) % clients.length] as TestClient;
      const outcome = await wire.openSession(askOf(client), address);
      expect(outcome).toMatchObject({ tenantId: client.tenantId, clientId: client.clientId });
      const caller = answerOf(await wire.call("/v1/sdk/whoami", undefined, bearer(tokenOf(outcome)))).caller;
      expect(caller).toMatchObject({ tenant_id: client.tenantId, principal_id: client.clientId });
      expect(await wire.openSession({ ...askOf(client), clientSecret: secret }, address)).toEqual(refused);
    }
  }
}

/** A tenant whose client is at its limit blocks no other tenant's client of that name at the same address. */
async function limitsOwnClients(_world: World, wire: Wire): Promise<void> {
  const address = from(wire.name === "REST" ? "192.0.2.1" : "192.0.2.2");
  const [busy, ...others] = [...sameNames(wire.name)] as [TestClient, ...TestClient[]];
  for (let attempt = 0; attempt < attemptsOfClient; attempt++) tokenOf(await wire.openSession(askOf(busy), address));
  expect(await wire.openSession(askOf(busy), address)).toMatchObject({ reason: "rate_limited" });
  for (const other of others) tokenOf(await wire.openSession(askOf(other), address));
  const [first, second] = sameTexts(wire.name) as [TestClient, TestClient];
  for (let attempt = 0; attempt < attemptsOfClient; attempt++) tokenOf(await wire.openSession(askOf(first), address));
  expect(await wire.openSession(askOf(first), address)).toMatchObject({ reason: "rate_limited" });
  tokenOf(await wire.openSession(askOf(second), address));
}

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

export const sessionRows: readonly IsolationRow[] = [
  { thing: "a used DPoP proof", tables: ["proof_uses"], check: proofsAreOwn },
  { thing: "the limit of a session client", tables: ["attempts"], check: limitsOwnClients },
];
