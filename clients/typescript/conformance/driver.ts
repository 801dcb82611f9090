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
import { createGrpcTransport, createHttpClient } from "svc-platform-client/node";
import { type RecordedAnswer, verifyAnswer, verifyReceipt } from "svc-platform-client/receipts";
import type { CallStep, DriverOptions, DriverRequest, Route, Step, StepAnswer } from "../../conformance/protocol.ts";

type AnyMessage = MessageShape<DescMethodUnary["output"]>;
type AnyCall = (request: AnyMessage, options: object) => Promise<AnyMessage>;

const methods: Readonly<Record<Route, DescMethodUnary>> = {
  whoami: DiscoveryService.method.whoAmI,
  capabilities: DiscoveryService.method.getCapabilities,
  bootstrap: DiscoveryService.method.getBootstrap,
  "protection-plan": ProtectionService.method.planProtection,
  "policy-resolve": ProtectionService.method.resolvePolicy,
  "key-access-plan": ProtectionService.method.planKeyAccess,
  "artifact-register": RegistrationService.method.registerArtifact,
  evidence: EvidenceService.method.recordEvidence,
};

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
  try {
    const answers: StepAnswer[] = [];
    for (const step of request.steps) answers.push(await runStep(step, client, options));
    return answers;
  } finally {
    grpc?.close();
  }
}

function understood({ understood_obligations: ids = [], understood_parameters: names = {} }: DriverOptions) {
  return Object.fromEntries(ids.map((id) => [id, names[id] ?? (true as const)]));
}

async function runStep(step: Step, client: PlatformClient, options: DriverOptions): Promise<StepAnswer> {
  const { pause_ms: pauseMs = 0 } = step;
  if (pauseMs > 0) await new Promise((done) => setTimeout(done, pauseMs));
  try {
    switch (step.call) {
      case "concurrent":
        return { steps: await Promise.all(step.calls.map((each) => runStep(each, client, options))) };
      case "verify-receipt":
        return { receipt: await verdictOf(verifyReceipt(fromJson(ReceiptSchema, step.receipt), step.log_key)) };
      case "cached-capabilities":
        return { answer: toJson(methods.capabilities.output, await client.capabilities()) as JsonObject };
      case "cached-bootstrap":
        return { answer: toJson(methods.bootstrap.output, await client.bootstrap()) as JsonObject };
      case undefined:
        throw new Error("this driver has no streams");
      default:
        return await runCall(step, client, options);
    }
  } catch (error) {
    if (error instanceof NotPermitted)
      return { not_permitted: { reasons: error.reasons, unknown_obligations: error.unknownObligations } };
    if (!(error instanceof PlatformError)) throw error;
    const { code, reason = "", requestId = "", missingScopes, violations } = error;
    return {
      error: { code: snakeCase(Code[code]), reason, request_id: requestId, missing_scopes: missingScopes, violations },
    };
  }
}

async function runCall(step: CallStep, client: PlatformClient, options: DriverOptions): Promise<StepAnswer> {
  const method = methods[step.call as Route];
  const request = fromJson(method.input, step.request ?? {});
  const headers = step.idempotency_key === undefined ? {} : { "idempotency-key": step.idempotency_key };
  const services = [client.discovery, client.protection, client.registration, client.evidence];
  const call = services.map((each) => (each as unknown as Record<string, AnyCall>)[method.localName]).find(Boolean);
  const answer = (await call?.(request, { headers })) as AnyMessage & Record<string, Result | undefined>;
  const result = answer.decision ?? answer.registration ?? answer.ingestion;
  if (step.require_allow === true) {
    const own = (request as { understoodObligations?: string[] }).understoodObligations ?? [];
    requireAllow(result as Parameters<typeof requireAllow>[0], own.length > 0 ? own : understood(options));
  }
  const { log_keys: logKeys = [] } = options;
  const isLooked = result?.receipt !== undefined && logKeys.length > 0;
  const receipt = isLooked ? await verdictOf(verifyAnswer(answer as unknown as RecordedAnswer, logKeys)) : "absent";
  return { answer: toJson(method.output, answer) as JsonObject, receipt };
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
