import { type Client, createClient, type Transport } from "@connectrpc/connect";
import { DiscoveryService } from "../../gen/platform/sdk/v1/discovery_pb.ts";
import { EvidenceService } from "../../gen/platform/sdk/v1/evidence_pb.ts";
import { ProtectionService } from "../../gen/platform/sdk/v1/protection_pb.ts";
import { RegistrationService } from "../../gen/platform/sdk/v1/registration_pb.ts";

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
