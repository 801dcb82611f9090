/** The product's server over methods of a test, with a gate that goes by the test's own word. */
import { randomFillSync } from "node:crypto";
import { systemClock } from "../../src/base/clock.ts";
import { ServiceError } from "../../src/base/errors.ts";
import type { PrincipalId, TenantId } from "../../src/base/ids.ts";
import { createBodyBudget } from "../../src/http/body.ts";
import { servedMethods } from "../../src/transport/calls/methods.ts";
import { createChain } from "../../src/transport/gate/chain.ts";
import type { ServerOptions } from "../../src/transport/server.ts";

/** @param tenantOf tenant of an `Authorization` header; undefined refuses it */
export function bareServer(
  services: Parameters<typeof servedMethods>[0],
  tenantOf: (authorization: string | undefined) => string | undefined,
  more: Partial<ServerOptions> = {},
): ServerOptions {
  const addressOf: ServerOptions["addressOf"] = ({ remoteAddress }) => remoteAddress;
  const chain = createChain({
    headerPrefix: "x-svc-",
    addressOf,
    requiredScopes: () => [],
    verifier: {
      async authenticate(inbound) {
        const tenant = tenantOf(inbound.headerValues("authorization")[0]);
        if (tenant === undefined)
          throw new ServiceError("invalid_token", "the access token is not valid", { challenge: "Bearer" });
        const [tenantId, principalId] = [tenant as TenantId, tenant as PrincipalId];
        return { tenantId, principalId, subject: principalId, authSource: "bearer_token", scopes: [] };
      },
      authenticateStill: () => Promise.reject(new ServiceError("internal", "nothing streams here")),
    },
  });
  return {
    ...{ service: "test", methods: servedMethods(services) },
    ...chain,
    addressOf,
    watchAdmission: () => {},
    bodies: createBodyBudget({ maxBytes: 1_048_576, addressOf }),
    limits: { maxBodyBytes: () => 4096, maxItemBytes: () => 4096, bodyTimeoutMs: 10_000, maxDeadlineMs: 30_000 },
    listener: {
      onDefect: () => {},
      headersTimeoutMs: 10_000,
      requestTimeoutMs: 20_000,
      idleTimeoutMs: 20_000,
      answerTimeoutMs: 30_000,
      maxConnections: 4_096,
      maxHeaderBytes: 65_536,
    },
    clock: systemClock,
    random: (bytes) => randomFillSync(bytes),
    onAnswered: () => {},
    ...more,
  };
}
