/** All that local enforcement takes from the client that it is part of. */
import {
  clientCredentials,
  createPlatformClient,
  createRestTransport,
  type PlatformClient,
  type Receipt,
  workloadInterceptors,
} from "svc-platform-api/client";
import { createHttpClient, type TlsOptions } from "svc-platform-api/client/node";
import { verifyReceipt as verify } from "svc-platform-api/client/receipts";

export {
  ArtifactKind,
  ArtifactProfile,
  EvidenceEventType,
  KeyAccessOperation,
  type KeyTransport,
  type Obligation,
  type PlatformClient,
  ProtectionOperation,
  type Receipt,
  ReceiptSchema,
  type ResourceDescriptorSchema,
  WorkloadDescriptorSchema,
} from "svc-platform-api/client";

/** The record that the receipt shows, absent where it is a brief one. Rejects where no key shows it. */
export async function verifyReceipt(
  receipt: Receipt,
  logKeys: readonly string[],
): Promise<{ readonly record?: object }> {
  let failure: unknown = new Error("there is no key");
  for (const key of logKeys) {
    try {
      const { record } = verify(receipt, key);
      return record === undefined ? {} : { record };
    } catch (error) {
      failure = error;
    }
  }
  throw failure;
}

/** Where the platform is, and who this workload is to it. */
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
