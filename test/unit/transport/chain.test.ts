import { expect, test } from "vitest";
import type { Caller } from "../../../src/base/caller.ts";
import { ServiceError } from "../../../src/base/errors.ts";
import type { RequestId } from "../../../src/base/ids.ts";
import type { InboundRequest } from "../../../src/base/inbound-request.ts";
import type { Call } from "../../../src/transport/calls/call.ts";
import { createChain } from "../../../src/transport/gate/chain.ts";

const caller = { tenantId: "tenant-a", principalId: "p", subject: "s", authSource: "bearer_token", scopes: [] };

function chainOf(authenticate: (inbound: InboundRequest) => Promise<Caller>, takesTokens?: boolean) {
  return createChain({
    takesTokens,
    headerPrefix: "x-svc-",
    addressOf: ({ remoteAddress }) => remoteAddress,
    verifier: { authenticate, authenticateStill: authenticate },
    requiredScopes: () => ["platform-api.access"],
  });
}

function contextOf(tenantHeader: string, authorization: readonly string[] = []) {
  const inbound: InboundRequest = {
    headerValues: (name) =>
      name === "x-svc-tenant-id" ? [tenantHeader] : name === "authorization" ? authorization : [],
    remoteAddress: "127.0.0.1",
    method: "POST",
    url: "/",
  };
  const call: Call = { requestId: "r" as RequestId, receivedAtMs: 0, inbound };
  return { call, rpc: "S/M", signal: new AbortController().signal };
}

test("the gate refuses a call in progress if its credentials are refused, or are another caller's, by now", async () => {
  let now: Partial<Caller> | undefined = { ...caller, scopes: ["platform-api.access"] } as unknown as Caller;
  const { gate, gateStill } = chainOf(() =>
    now === undefined
      ? Promise.reject(new ServiceError("invalid_token", "called back"))
      : Promise.resolve(now as unknown as Caller),
  );
  const context = contextOf("tenant-a");
  await gate(context);
  const good = now;
  await gateStill(context);
  for (const [changed, reason] of [
    [undefined, "invalid_token"],
    [{ ...good, principalId: "another" as Caller["principalId"] }, "invalid_token"],
    [{ ...good, tenantId: "tenant-b" as Caller["tenantId"] }, "invalid_token"],
    [{ ...good, scopes: [] }, "missing_scope"],
  ] as const) {
    now = changed;
    await expect(gateStill(context)).rejects.toMatchObject({ reason });
  }
  now = good;
  await gateStill(context);
});

test("if no call carries a token, tenants that share an Authorization header are told apart for admission", async () => {
  const scopes = ["platform-api.access"];
  const authenticate = async ({ headerValues }: InboundRequest) =>
    ({ ...caller, tenantId: headerValues("x-svc-tenant-id")[0], scopes }) as unknown as Caller;
  const { gate, accounts } = chainOf(authenticate, false);
  const contexts = ["tenant-a", "tenant-b"].map((tenant) => contextOf(tenant, ["Basic of-the-hop"]));
  for (const context of contexts) await gate(context);
  expect(contexts.map(({ call }) => accounts.of(call.inbound).group)).toEqual(["tenant-a", "tenant-b"]);
});
