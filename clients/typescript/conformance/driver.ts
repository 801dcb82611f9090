/** The driver of this package for the conformance suite: `node driver.ts [grpc|json]`, over gRPC by default. */
import { createInterface } from "node:readline";
import { type DescMethodUnary, fromJson, type JsonObject, type MessageShape, toJson } from "@bufbuild/protobuf";
import {
  Code,
  clientCredentials,
  createDpop,
  createPlatformClient,
  createRestTransport,
  DiscoveryService,
  EvidenceService,
  NotPermitted,
  type PlatformClient,
  PlatformError,
  ProtectionService,
  type Receipt,
  ReceiptSchema,
  RegistrationService,
  requireAllow,
  workloadInterceptors,
} from "svc-platform-client";
import {
  type BulkClient,
  BulkDecisionService,
  BulkRecordService,
  createBulkClient,
  type EventResult,
  EventResultSchema,
  type EventStream,
  ItemOutcome,
  type RegistrationResult,
  RegistrationResultSchema,
  type RegistrationStream,
  type Sent,
} from "svc-platform-client/bulk";
import { createGrpcTransport, createHttpClient } from "svc-platform-client/node";
import {
  type BulkAnswer,
  type CallKnowledge,
  type RecordedAnswer,
  type RecordedItem,
  verifyAnswer,
  verifyItem,
  verifyItems,
  verifyReceipt,
} from "svc-platform-client/receipts";
import type {
  BulkRoute,
  CallStep,
  DriverOptions,
  DriverRequest,
  Route,
  Step,
  StepAnswer,
  StreamItem,
  StreamStep,
} from "../../conformance/protocol.ts";

type AnyMessage = MessageShape<DescMethodUnary["output"]>;
type AnyCall = (request: AnyMessage, options: object) => Promise<AnyMessage>;

const methods: Readonly<Record<Route | BulkRoute, DescMethodUnary>> = {
  whoami: DiscoveryService.method.whoAmI,
  capabilities: DiscoveryService.method.getCapabilities,
  bootstrap: DiscoveryService.method.getBootstrap,
  "protection-plan": ProtectionService.method.planProtection,
  "policy-resolve": ProtectionService.method.resolvePolicy,
  "key-access-plan": ProtectionService.method.planKeyAccess,
  "artifact-register": RegistrationService.method.registerArtifact,
  evidence: EvidenceService.method.recordEvidence,
  "bulk/protection-plans": BulkDecisionService.method.planProtections,
  "bulk/policy-resolutions": BulkDecisionService.method.resolvePolicies,
  "bulk/key-access-plans": BulkDecisionService.method.planKeyAccesses,
  "bulk/evidence": BulkRecordService.method.recordEvents,
  "bulk/artifact-registrations": BulkRecordService.method.registerArtifacts,
};

interface Clients {
  readonly client: PlatformClient;
  readonly bulk: BulkClient;
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line) as DriverRequest;
  process.stdout.write(`${JSON.stringify({ case: request.case, steps: await run(request) })}\n`);
}

async function run(request: DriverRequest): Promise<StepAnswer[]> {
  const { base_url: baseUrl, options } = request;
  const { ca: caFile, cert: certFile, key: keyFile } = request.tls;
  const tls = { ...(caFile && { caFile }), ...(certFile && { certFile }), ...(keyFile && { keyFile }) };
  const http = createHttpClient({ tls });
  const dpop = request.dpop ? createDpop() : undefined;
  const { token } = request;
  const interceptors = workloadInterceptors({
    ...(token && {
      tokens: clientCredentials({
        issuer: token.issuer,
        clientId: token.client_id,
        ...(token.client_secret !== undefined && { clientSecret: token.client_secret }),
        scopes: token.scopes,
        http,
        ...(dpop && { dpop }),
      }),
    }),
    ...(dpop && { dpop }),
    retry: {
      attempts: options.max_attempts,
      baseDelayMs: options.initial_backoff_ms,
      maxDelayMs: options.max_backoff_ms,
    },
    receipts: options.receipts,
    understoodObligations: understood(options),
  });
  const grpc = process.argv[2] === "json" ? undefined : createGrpcTransport({ baseUrl, tls, interceptors });
  const transport = grpc ?? createRestTransport({ baseUrl, http, interceptors });
  const client = createPlatformClient(transport, {
    deadlineMs: options.deadline_ms,
    ...(options.cache_ms !== undefined && { keepMs: options.cache_ms }),
  });
  const clients = { client, bulk: createBulkClient(transport, { deadlineMs: options.deadline_ms }) };
  try {
    const answers: StepAnswer[] = [];
    for (const step of request.steps) answers.push(await runStep(step, clients, options));
    return answers;
  } finally {
    grpc?.close();
  }
}

function understood({ understood_obligations: ids = [], understood_parameters: names = {} }: DriverOptions) {
  return Object.fromEntries(ids.map((id) => [id, names[id] ?? (true as const)]));
}

async function runStep(step: Step, clients: Clients, options: DriverOptions): Promise<StepAnswer> {
  const { client } = clients;
  await pause(step.pause_ms);
  try {
    switch (step.call) {
      case undefined:
        return await runStream(step, clients.bulk, options);
      case "concurrent":
        return { steps: await Promise.all(step.calls.map((each) => runStep(each, clients, options))) };
      case "verify-receipt":
        return { receipt: await verdictOf(verifyReceipt(fromJson(ReceiptSchema, step.receipt), step.log_key)) };
      case "cached-capabilities":
        return { answer: toJson(methods.capabilities.output, await client.capabilities()) as JsonObject };
      case "cached-bootstrap":
        return { answer: toJson(methods.bootstrap.output, await client.bootstrap()) as JsonObject };
      default:
        return await runCall(step, clients, options);
    }
  } catch (error) {
    if (error instanceof NotPermitted)
      return { not_permitted: { reasons: error.reasons, unknown_obligations: error.unknownObligations } };
    return { error: errorOf(error) };
  }
}

function errorOf(error: unknown): NonNullable<StepAnswer["error"]> {
  if (!(error instanceof PlatformError)) throw error;
  const { code, reason = "", requestId = "", missingScopes, violations } = error;
  return { code: snakeCase(Code[code]), reason, request_id: requestId, missing_scopes: missingScopes, violations };
}

async function pause(ms = 0): Promise<void> {
  if (ms > 0) await new Promise((done) => setTimeout(done, ms));
}

async function runCall(step: CallStep, { client, bulk }: Clients, options: DriverOptions): Promise<StepAnswer> {
  const method = methods[step.call];
  const request = fromJson(method.input, step.request ?? {});
  const headers = step.idempotency_key === undefined ? {} : { "idempotency-key": step.idempotency_key };
  const services = [client.discovery, client.protection, client.registration, client.evidence, bulk];
  const call = services.map((each) => (each as unknown as Record<string, AnyCall>)[method.localName]).find(Boolean);
  const sentAtMs = Date.now();
  const answer = (await call?.(request, { headers })) as AnyMessage;
  const json = toJson(method.output, answer) as JsonObject;
  const { log_keys: logKeys = [] } = options;
  const asked = "items" in request ? (request.items as Asked[]) : [request as Asked];
  const items = "items" in answer ? (answer.items as Holder[]) : [answer as Holder];
  const results = items.map((item) => item.decision ?? item.registration ?? item.ingestion);
  if (step.require_allow === true) {
    for (const [i, result] of results.entries()) {
      const own = asked[i]?.understoodObligations ?? [];
      requireAllow(result as Parameters<typeof requireAllow>[0], own.length > 0 ? own : understood(options));
    }
  }
  if (logKeys.length === 0 || results.every((result) => result?.receipt === undefined))
    return { answer: json, receipt: "absent" };
  const singles = asked.map((item) => item.event ?? item.registration ?? item);
  const idempotencyKeys = asked.map(({ idempotencyKey = "" }) => idempotencyKey);
  const known = knowledgeOf(options, sentAtMs);
  const verified: Promise<unknown> =
    "items" in request
      ? verifyItems(answer as BulkAnswer, singles as never, logKeys, { ...known, idempotencyKeys })
      : verifyAnswer(answer as unknown as RecordedAnswer, request as never, logKeys, known);
  return { answer: json, receipt: await verdictOf(verified) };
}

/** What a call, or an item of one, asks. */
type Asked = {
  readonly understoodObligations?: string[];
  readonly idempotencyKey?: string;
  readonly event?: object;
  readonly registration?: object;
};
/** What has the result of a call, or of an item of one. */
type Holder = Partial<Record<"decision" | "registration" | "ingestion", Result>>;

async function runStream(step: StreamStep, bulk: BulkClient, options: DriverOptions): Promise<StepAnswer> {
  const { max_unacknowledged_items: items, max_unacknowledged_bytes: bytes } = step;
  const bounds = {
    ...(items !== undefined && { maxUnacknowledgedItems: items }),
    ...(bytes !== undefined && { maxUnacknowledgedBytes: bytes }),
  };
  return step.stream === "events"
    ? drive(step, bulk.openEventStream(bounds), EvidenceService.method.recordEvidence, EventResultSchema, options)
    : drive(
        step,
        bulk.openRegistrationStream(bounds),
        RegistrationService.method.registerArtifact,
        RegistrationResultSchema,
        options,
      );
}

async function drive(
  { items }: StreamStep,
  stream: EventStream | RegistrationStream,
  { input }: DescMethodUnary,
  output: typeof EventResultSchema | typeof RegistrationResultSchema,
  options: DriverOptions,
): Promise<StepAnswer> {
  const { log_keys: logKeys = [] } = options;
  const sentAtMs = Date.now();
  const asked = items.map(({ event, registration }) => fromJson(input, event ?? registration ?? {}));
  const sent: Sent<EventResult | RegistrationResult>[] = [];
  let failure: unknown;
  try {
    for (const [i, { idempotency_key: key, pause_ms: ms }] of items.entries()) {
      await pause(ms);
      sent.push(await stream.send(asked[i] as never, key));
    }
    await stream.close();
  } catch (error) {
    failure = error;
  }
  const results = await Promise.all(items.map((_: StreamItem, i) => sent[i]?.result.catch(() => undefined)));
  const words = await Promise.all(
    results.map(async (result, i) => {
      if (result?.outcome !== ItemOutcome.ANSWERED || logKeys.length === 0) return "absent";
      return verdictOf(verifyItem(result as RecordedItem, asked[i] as never, logKeys, knowledgeOf(options, sentAtMs)));
    }),
  );
  return {
    results: results.map((result) => (result === undefined ? null : (toJson(output, result as never) as JsonObject))),
    receipt: (["refused", "verified"] as const).find((word) => words.includes(word)) ?? "absent",
    ...(failure !== undefined && {
      error: errorOf(failure),
      unacknowledged: stream.unacknowledged().map(({ idempotencyKey }) => idempotencyKey),
    }),
  };
}

/** What the program knows of its calls besides what it asks. */
function knowledgeOf({ caller }: DriverOptions, sentAtMs: number): CallKnowledge {
  if (caller === undefined) return { sentAtMs };
  const { tenant_id: tenantId, principal_id: principalId, subject, auth_source: authSource } = caller;
  return { sentAtMs, caller: { tenantId, principalId, subject, authSource } };
}

type Result = { readonly receipt?: Receipt };

function verdictOf(verified: Promise<unknown>): Promise<"verified" | "refused"> {
  return verified.then(
    () => "verified",
    () => "refused",
  );
}

function snakeCase(name = ""): string {
  return name.replace(/(?<=[a-z])(?=[A-Z])/g, "_").toLowerCase();
}
