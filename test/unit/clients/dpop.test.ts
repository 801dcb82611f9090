import { Code, ConnectError, createRouterTransport } from "@connectrpc/connect";
import { decodeJwt } from "jose";
import { expect, test } from "vitest";
import {
  createDpop,
  createPlatformClient,
  DiscoveryService,
  workloadInterceptors,
} from "../../../clients/typescript/src/index.ts";

test("each of two calls that are asked for the same nonce at once is sent again with it", async () => {
  const nonces: unknown[] = [];
  const both = Promise.withResolvers<void>();
  const transport = createRouterTransport(
    (router) =>
      router.service(DiscoveryService, {
        async whoAmI(_, { requestHeader }) {
          const { nonce } = decodeJwt(requestHeader.get("dpop") ?? "");
          nonces.push(nonce);
          if (nonce !== undefined) return {};
          if (nonces.length === 2) both.resolve();
          await both.promise;
          throw new ConnectError("use the nonce", Code.Unauthenticated, { "dpop-nonce": "nonce-1" });
        },
      }),
    {
      transport: {
        interceptors: workloadInterceptors({
          tokens: { token: async () => "token", refused: () => {} },
          dpop: createDpop(),
          retry: false,
        }),
      },
    },
  );
  const { discovery } = createPlatformClient(transport);
  await Promise.all([discovery.whoAmI({}), discovery.whoAmI({})]);
  expect(nonces).toEqual([undefined, undefined, "nonce-1", "nonce-1"]);
});
