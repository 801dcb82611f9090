/**
 * The platform's client for TypeScript, on any platform that has `fetch`: typed calls of the eight methods, over JSON
 * here, over gRPC and with client certificates in `svc-platform-api/client/node`.
 */
import { type Client, createClient, type Transport } from "@connectrpc/connect";
import { DiscoveryService } from "../../gen/platform/sdk/v1/discovery_pb.ts";
import { EvidenceService } from "../../gen/platform/sdk/v1/evidence_pb.ts";
import { ProtectionService } from "../../gen/platform/sdk/v1/protection_pb.ts";
import { RegistrationService } from "../../gen/platform/sdk/v1/registration_pb.ts";

export { Code, ConnectError, type Interceptor, type Transport } from "@connectrpc/connect";
export * from "../../gen/platform/sdk/v1/common_pb.ts";
export * from "../../gen/platform/sdk/v1/discovery_pb.ts";
export * from "../../gen/platform/sdk/v1/evidence_pb.ts";
export * from "../../gen/platform/sdk/v1/protection_pb.ts";
export * from "../../gen/platform/sdk/v1/registration_pb.ts";
export type { HttpClient } from "./http.ts";
export { fetchHttpClient } from "./http.ts";
export { authorize, idempotencyKey, type WorkloadOptions, workloadInterceptors } from "./interceptors.ts";
export { type Problem, problemOf } from "./problem.ts";
export { createRestTransport, type RestTransportOptions } from "./rest-transport.ts";
export { type RetryOptions, retry } from "./retry.ts";
export { type ClientCredentialsOptions, clientCredentials, type TokenProvider } from "./tokens.ts";

/** The eight calls of the public contract, by service. Each takes a request and `{ signal, timeoutMs, headers }`. */
export interface PlatformClient {
  readonly discovery: Client<typeof DiscoveryService>;
  readonly protection: Client<typeof ProtectionService>;
  readonly registration: Client<typeof RegistrationService>;
  readonly evidence: Client<typeof EvidenceService>;
}

/** Makes the client over any transport. Calls reject with a `ConnectError`; `problemOf` reads what it says. */
export function createPlatformClient(transport: Transport): PlatformClient {
  return {
    discovery: createClient(DiscoveryService, transport),
    protection: createClient(ProtectionService, transport),
    registration: createClient(RegistrationService, transport),
    evidence: createClient(EvidenceService, transport),
  };
}
