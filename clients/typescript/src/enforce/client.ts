/** The parts of the client that local enforcement uses. */
import {
  clientCredentials,
  createPlatformClient,
  createRestTransport,
  type PlatformClient,
  workloadInterceptors,
} from "../index.ts";
import { createHttpClient, type TlsOptions } from "../node.ts";

export type {
  BulkClient,
  EventResult,
  ItemError,
  KeyAccessPlanItem,
  ProtectionPlanItem,
  RegistrationResult,
} from "../bulk.ts";
export {
  ArtifactKind,
  ArtifactProfile,
  EvidenceEventType,
  KeyAccessOperation,
  type KeyTransport,
  type Obligation,
  PlanKeyAccessRequestSchema,
  type PlanKeyAccessResponse,
  PlanProtectionRequestSchema,
  type PlanProtectionResponse,
  type PlatformClient,
  PlatformError,
  ProtectionOperation,
  type Receipt,
  ReceiptSchema,
  RecordEvidenceRequestSchema,
  RegisterArtifactRequestSchema,
  type ResourceDescriptorSchema,
  WorkloadDescriptorSchema,
} from "../index.ts";

/** Address of the platform, and identity of this workload. */
export interface Connection {
  readonly baseUrl: string;
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  readonly scopes?: readonly string[];
  readonly tls: TlsOptions;
}

/** A client over the JSON routes, with a token of the issuer, the workload's certificate, and retries. */
export function connect({ baseUrl, tls, ...credentials }: Connection): PlatformClient {
  const http = createHttpClient({ tls });
  const interceptors = workloadInterceptors({ tokens: clientCredentials({ ...credentials, http }) });
  return createPlatformClient(createRestTransport({ baseUrl, http, interceptors }));
}
