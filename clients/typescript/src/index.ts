/**
 * The platform's client for TypeScript, for any platform with `fetch`: typed calls of the eight methods over JSON; gRPC
 * and client certificates are in `svc-platform-client/node`.
 */
export { Code, ConnectError, type Interceptor, type Transport } from "@connectrpc/connect";
export * from "../../../gen/platform/sdk/v1/common_pb.ts";
export * from "../../../gen/platform/sdk/v1/discovery_pb.ts";
export * from "../../../gen/platform/sdk/v1/evidence_pb.ts";
export * from "../../../gen/platform/sdk/v1/protection_pb.ts";
export * from "../../../gen/platform/sdk/v1/registration_pb.ts";
export { type ClientOptions, createPlatformClient, type PlatformClient } from "./client.ts";
export { createDpop, type DpopKey } from "./dpop.ts";
export type { HttpClient } from "./http.ts";
export { fetchHttpClient } from "./http.ts";
export { authorize, idempotencyKey, type WorkloadOptions, workloadInterceptors } from "./interceptors.ts";
export {
  type Decision,
  NotPermitted,
  permitted,
  requireAllow,
  type UnderstoodObligations,
} from "./obligations.ts";
export { PlatformError, type Problem, problemOf } from "./problem.ts";
export { createRestTransport, type RestTransportOptions } from "./rest-transport.ts";
export { type RetryOptions, retry } from "./retry.ts";
export { type SessionTokenOptions, sessionTokens } from "./session-tokens.ts";
export { type ClientCredentialsOptions, clientCredentials, type TokenProvider } from "./tokens.ts";
