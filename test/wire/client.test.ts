/** Calls of the TypeScript package that their caller ends, and when it makes them again: no service is needed for either. */
import { Code, ConnectError, createRouterTransport } from "@connectrpc/connect";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  createPlatformClient,
  createRestTransport,
  DiscoveryService,
  type PlatformClient,
  type TokenProvider,
  workloadInterceptors,
} from "../../clients/typescript/src/index.ts";
import { createGrpcTransport, createHttpClient } from "../../clients/typescript/src/node.ts";
import { RetryInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";

/** A token that never comes: no call leaves. */
const never: TokenProvider = {
  token: (signal) => new Promise((_resolve, reject) => signal?.addEventListener("abort", () => reject(signal.reason))),
  refused: () => {},
};
const options = { baseUrl: "http://127.0.0.1:9", interceptors: workloadInterceptors({ tokens: never }) };

function overGrpc(): PlatformClient {
  const transport = createGrpcTransport(options);
  onTestFinished(() => transport.close());
  return createPlatformClient(transport);
}

const overRest = () => createPlatformClient(createRestTransport({ ...options, http: createHttpClient() }));

test.each([
  ["gRPC", overGrpc],
  ["REST", overRest],
])("a call over %s stops when its caller aborts, and when its deadline passes", async (_name, connect) => {
  const abort = new AbortController();
  const call = connect().discovery.whoAmI({}, { signal: abort.signal });
  abort.abort();
  await expect(call).rejects.toMatchObject({ code: Code.Canceled });
  const late = connect().discovery.whoAmI({}, { timeoutMs: 20 });
  await expect(late).rejects.toMatchObject({ code: Code.DeadlineExceeded });
});

describe("retries", () => {
  /** A service that refuses each call until it had as many as these, with how long it asks to wait. */
  function flaky(refusals: readonly ConnectError[]) {
    const pauses: number[] = [];
    let calls = 0;
    const whoAmI = () => {
      const refusal = refusals[calls++];
      if (refusal !== undefined) throw refusal;
      return {};
    };
    const tokens: TokenProvider = { token: async () => "token", refused: () => {} };
    const retry = {
      random: () => 0.5,
      pause: async (delayMs: number) => void pauses.push(delayMs),
      maxRetryAfterMs: 7_000,
    };
    const transport = createRouterTransport(({ service }) => service(DiscoveryService, { whoAmI }), {
      transport: { interceptors: workloadInterceptors({ tokens, retry }) },
    });
    return { call: createPlatformClient(transport).discovery.whoAmI({}), pauses };
  }
  const unavailable = new ConnectError("not now", Code.Unavailable);
  const withDelay = (seconds: bigint) =>
    new ConnectError("later", Code.ResourceExhausted, undefined, [
      { desc: RetryInfoSchema, value: { retryDelay: { seconds, nanos: 0 } } },
    ]);

  test("come later each time, and no sooner than the service asks", async () => {
    const { call, pauses } = flaky([unavailable, unavailable, withDelay(7n)]);
    await call;
    expect(pauses).toEqual([50, 100, 7_200]);
  });

  test("wait no longer than the workload allows", async () => {
    const { call, pauses } = flaky([withDelay(8n)]);
    await expect(call).rejects.toMatchObject({ code: Code.ResourceExhausted });
    expect(pauses).toEqual([]);
  });
});
