import { Code, ConnectError, createRouterTransport } from "@connectrpc/connect";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  ArtifactProfile,
  clientCredentials,
  createPlatformClient,
  createRestTransport,
  DiscoveryService,
  EvidenceEventType,
  EvidenceService,
  fetchHttpClient,
  type HttpClient,
  type PlatformClient,
  ProtectionOperation,
  problemOf,
  type retry,
  type TokenProvider,
  workloadInterceptors,
} from "../../clients/typescript/src/index.ts";
import { createGrpcTransport, createHttpClient } from "../../clients/typescript/src/node.ts";
import { sampleCalls } from "../../dev/requests.ts";
import { RetryInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { gatewayForFile } from "../harness/gateway.ts";

const gateway = await gatewayForFile();

function tokensOf(http: HttpClient = fetchHttpClient(), now?: () => number): TokenProvider {
  const { issuer } = gateway;
  const [client] = issuer.clients;
  if (client === undefined) throw new Error("no client");
  const { clientId, clientSecret, scopes } = client;
  return clientCredentials({ issuer: issuer.url, clientId, clientSecret, scopes, http, ...(now && { now }) });
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
  test("makes the calls of a workload's day", async () => {
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

  test("says what is wrong with a request", async () => {
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

  test("gives up an invalid token, and does not ask for another one in the same call", async () => {
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

  test("stops when its caller does, and when its time is up", async () => {
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

describe("tokens", () => {
  test("are fetched once for calls at the same time, and again shortly before they expire", async () => {
    let nowMs = 0;
    const asked: string[] = [];
    const http = fetchHttpClient();
    const tokens = tokensOf(
      (request) => {
        asked.push(new URL(request.url).pathname);
        return http(request);
      },
      () => nowMs,
    );
    const [first, second] = await Promise.all([tokens.token(), tokens.token()]);
    expect(second).toBe(first);
    expect(asked).toEqual(["/.well-known/openid-configuration", "/token"]);
    nowMs = 269_999;
    expect(await tokens.token()).toBe(first);
    nowMs = 270_000;
    expect(await tokens.token()).not.toBe(first);
    expect(asked.length).toBe(3);
  });

  test("that the issuer refuses fail at once and say why; the next call asks again", async () => {
    const wrong = clientCredentials({
      issuer: gateway.issuer.url,
      clientId: "payroll-service",
      clientSecret: "wrong",
      http: fetchHttpClient(),
    });
    const refused = wrong.token();
    await expect(refused).rejects.toMatchObject({ code: Code.Unauthenticated });
    await expect(refused).rejects.toThrow(/invalid_client/);
    await expect(wrong.token()).rejects.toThrow(/invalid_client/);
  });

  test("are not taken from the document of another issuer", async () => {
    const other = clientCredentials({
      issuer: `${gateway.issuer.url}/`,
      clientId: "payroll-service",
      clientSecret: "any",
      http: fetchHttpClient(),
    });
    await expect(other.token()).rejects.toThrow(/discovery document/);
  });
});

describe("retries", () => {
  /** A service that answers each call with the next of these refusals, and then well. */
  function flaky(refusals: readonly (() => ConnectError)[], options: Parameters<typeof retry>[0] = {}) {
    const pauses: number[] = [];
    const keys: (string | null)[] = [];
    let calls = 0;
    const answer = (header: Headers) => {
      keys.push(header.get("idempotency-key"));
      const refusal = refusals[calls++];
      if (refusal !== undefined) throw refusal();
      return {};
    };
    const pause = async (delayMs: number) => void pauses.push(delayMs);
    const tokens: TokenProvider = { token: async () => "token", refused: () => {} };
    const transport = createRouterTransport(
      ({ service }) => {
        service(DiscoveryService, { whoAmI: (_request, { requestHeader }) => answer(requestHeader) });
        service(EvidenceService, { recordEvidence: (_request, { requestHeader }) => answer(requestHeader) });
      },
      {
        transport: {
          interceptors: workloadInterceptors({ tokens, retry: { random: () => 0.5, pause, ...options } }),
        },
      },
    );
    return { client: createPlatformClient(transport), pauses, keys, calls: () => calls };
  }

  test("come later each time, and the call is answered", async () => {
    const { client, pauses, calls } = flaky([unavailable, unavailable, unavailable]);
    await client.discovery.whoAmI({});
    expect([calls(), pauses]).toEqual([4, [50, 100, 200]]);
  });

  test("end with the last refusal", async () => {
    const { client, calls } = flaky([unavailable, unavailable, unavailable, unavailable]);
    await expect(client.discovery.whoAmI({})).rejects.toMatchObject({ code: Code.Unavailable });
    expect(calls()).toBe(4);
  });

  test.each([
    ["RetryInfo", () => withDelay(7)],
    ["Retry-After", () => new ConnectError("later", Code.ResourceExhausted, { "retry-after": "7" })],
  ])("wait as long as %s asks", async (_name, refusal) => {
    const { client, pauses } = flaky([refusal]);
    await client.discovery.whoAmI({});
    expect(pauses).toEqual([7_050]);
  });

  test("do not wait longer than the workload allows", async () => {
    const { client, calls } = flaky([() => withDelay(7)], { maxRetryAfterMs: 6_999 });
    await expect(client.discovery.whoAmI({})).rejects.toMatchObject({ code: Code.ResourceExhausted });
    expect(calls()).toBe(1);
  });

  test.each([Code.InvalidArgument, Code.PermissionDenied, Code.ResourceExhausted, Code.Internal, Code.AlreadyExists])(
    "are not made after code %s",
    async (code) => {
      const { client, calls } = flaky([() => new ConnectError("no", code)]);
      await expect(client.discovery.whoAmI({})).rejects.toMatchObject({ code });
      expect(calls()).toBe(1);
    },
  );

  test("carry one idempotency key where something is recorded, another for each call, and the caller's own", async () => {
    const { client, keys } = flaky([unavailable]);
    await client.evidence.recordEvidence({});
    await client.evidence.recordEvidence({});
    await client.evidence.recordEvidence({}, { headers: { "idempotency-key": "mine" } });
    await client.discovery.whoAmI({});
    expect(keys[0]).toMatch(/^[0-9a-f-]{36}$/);
    expect(keys[1]).toBe(keys[0]);
    expect(keys[2]).not.toBe(keys[0]);
    expect(keys.slice(3)).toEqual(["mine", null]);
  });
});

function unavailable(): ConnectError {
  return new ConnectError("not now", Code.Unavailable);
}

function withDelay(seconds: number): ConnectError {
  const retryDelay = { seconds: BigInt(seconds), nanos: 0 };
  return new ConnectError("later", Code.ResourceExhausted, undefined, [
    { desc: RetryInfoSchema, value: { retryDelay } },
  ]);
}
