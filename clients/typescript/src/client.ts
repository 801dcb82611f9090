/** The client: typed calls of the eight methods, each within one deadline, with caches and permission checks. */
import { type Client, createClient, type Transport } from "@connectrpc/connect";
import {
  DiscoveryService,
  type GetBootstrapResponse,
  type GetCapabilitiesResponse,
} from "../../../gen/platform/sdk/v1/discovery_pb.ts";
import { EvidenceService } from "../../../gen/platform/sdk/v1/evidence_pb.ts";
import { ProtectionService } from "../../../gen/platform/sdk/v1/protection_pb.ts";
import { RegistrationService } from "../../../gen/platform/sdk/v1/registration_pb.ts";
import { withDeadline } from "./deadline.ts";
import { kept } from "./kept.ts";

export interface ClientOptions {
  /** Default time for a call, in milliseconds, over all attempts. Default 10,000. */
  readonly deadlineMs?: number;
  /** How long capabilities and bootstrap are cached, in milliseconds. Default 300,000. */
  readonly keepMs?: number;
}

/** The eight calls of the public contract, by service. Each takes a request and `{ signal, timeoutMs, headers }`. */
export interface PlatformClient {
  readonly discovery: Client<typeof DiscoveryService>;
  readonly protection: Client<typeof ProtectionService>;
  readonly registration: Client<typeof RegistrationService>;
  readonly evidence: Client<typeof EvidenceService>;
  /** Cached capabilities; concurrent callers share a call. Failures are not cached. */
  capabilities(): Promise<GetCapabilitiesResponse>;
  /** The same for bootstrap. */
  bootstrap(): Promise<GetBootstrapResponse>;
}

/** Creates the client over any transport. Calls reject with a `PlatformError`. */
export function createPlatformClient(transport: Transport, options: ClientOptions = {}): PlatformClient {
  const { deadlineMs = 10_000, keepMs = 300_000 } = options;
  const bounded = withDeadline(transport, deadlineMs);
  const discovery = createClient(DiscoveryService, bounded);
  return {
    discovery,
    protection: createClient(ProtectionService, bounded),
    registration: createClient(RegistrationService, bounded),
    evidence: createClient(EvidenceService, bounded),
    capabilities: kept(() => discovery.getCapabilities({}), keepMs),
    bootstrap: kept(() => discovery.getBootstrap({}), keepMs),
  };
}
