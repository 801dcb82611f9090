import { Code, ConnectError, createRouterTransport } from "@connectrpc/connect";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  ArtifactProfile,
  clientCredentials,
  createPlatformClient,
  createRestTransport,
  DiscoveryService,
  EvidenceEventType,
  fetchHttpClient,
  type PlatformClient,
  ProtectionOperation,
  problemOf,
  type TokenProvider,
  workloadInterceptors,
} from "../../clients/typescript/src/index.ts";
import { createGrpcTransport, createHttpClient } from "../../clients/typescript/src/node.ts";
import { sampleCalls } from "../../dev/requests.ts";
import { RetryInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { gatewayForFile } from "../harness/gateway.ts";

const gateway = await gatewayForFile();

function tokensOf(): TokenProvider {
  const { issuer } = gateway;
  const [client] = issuer.clients;
  if (client === undefined) throw new Error("no client");
  const { clientId, clientSecret, scopes } = client;
  return clientCredentials({ issuer: issuer.url, clientId, clientSecret, scopes, http: fetchHttpClient() });
}

function overGrpc(tokens = tokensOf()): PlatformClient {
  const transport = createGrpcTransport({ baseUrl: gateway.url, interceptors: workloadInterceptors({ tokens }) });
  onTestFinished(() => transport.close());
  return createPlatformClient(transport);
}

function overRest(tokens = tokensOf(), http = createHttpClient()): PlatformClient {
  const interceptors = workloadInterceptors({ tokens });
  return createPlatformClient(createRestTransport({ baseUrl: gateway.url, http, interceptors }));
}

const workload = { application: "payroll-export", environment: "production", component: "nightly-writer" };
const resource = { kind: "customer-record", id: "cust-8841", mimeType: "application/pdf" };
const planRequest = {
  operation: ProtectionOperation.PROTECT,
  workload,
  resource,
  preferredArtifactProfile: ArtifactProfile.TDF,
  contentDigest: "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
  contentSizeBytes: 48213n,
  labels: ["confidential"],
  attributes: { region: "eu" },
  purpose: "quarterly-audit",
};

describe.each([
  ["gRPC", overGrpc],
  ["REST", overRest],
])("over %s", (_name, connect) => {
  test("makes the eight calls", async () => {
    const client = connect();
    expect((await client.discovery.whoAmI({})).caller).toMatchObject({ tenantId: "tenant-a" });
    expect((await client.discovery.getCapabilities({})).routes).toHaveLength(sampleCalls().length);
    const plan = await client.protection.planProtection(planRequest);
    expect(plan.decision).toMatchObject({ allow: true });
    expect(plan.execution).toMatchObject({ artifactProfile: ArtifactProfile.TDF, sendPlaintextToPlatform: false });
    expect(plan.requestSummary).toMatchObject({ contentSizeBytes: 48213n, labelCount: 1 });
    const decisionId = plan.decision?.decisionId ?? "";
    const registered = await client.registration.registerArtifact({
      operation: ProtectionOperation.PROTECT,
      workload,
      resource,
      artifactProfile: ArtifactProfile.TDF,
      artifactDigest: "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
      decisionId,
    });
    expect(registered.registration).toMatchObject({ accepted: true });
    const event = { eventType: EvidenceEventType.PROTECT, workload, resource, decisionId };
    expect((await client.evidence.recordEvidence(event)).ingestion).toMatchObject({ accepted: true });
  });

  test("reports what is wrong with a request", async () => {
    const refused = await connect()
      .protection.planProtection({ ...planRequest, workload: { application: "" } })
      .catch(problemOf);
    expect(refused).toMatchObject({
      code: Code.InvalidArgument,
      reason: "invalid_request",
      violations: [{ field: "workload.application", rule: "string.min_len" }],
      requestId: expect.stringMatching(/./),
    });
  });

  test("discards a refused token, and requests no other in the same call", async () => {
    const refused: string[] = [];
    let asked = 0;
    const tokens: TokenProvider = {
      async token() {
        asked++;
        return "not-a-token";
      },
      refused: (token) => void refused.push(token),
    };
    const call = connect(tokens).discovery.whoAmI({});
    await expect(call).rejects.toMatchObject({ code: Code.Unauthenticated, reason: "invalid_token" });
    expect([asked, refused]).toEqual([1, ["not-a-token"]]);
  });

  test("stops when its caller aborts, and when its deadline passes", async () => {
    const never: TokenProvider = {
      token: (signal) =>
        new Promise((_resolve, reject) => signal?.addEventListener("abort", () => reject(signal.reason))),
      refused: () => {},
    };
    const abort = new AbortController();
    const call = connect(never).discovery.whoAmI({}, { signal: abort.signal });
    abort.abort();
    await expect(call).rejects.toMatchObject({ code: Code.Canceled });
    const late = connect(never).discovery.whoAmI({}, { timeoutMs: 20 });
    await expect(late).rejects.toMatchObject({ code: Code.DeadlineExceeded });
  });
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
