/** The services of the public contract. */
import type { DescService } from "@bufbuild/protobuf";
import { DiscoveryService } from "../../../gen/platform/sdk/v1/discovery_pb.ts";
import { EvidenceService } from "../../../gen/platform/sdk/v1/evidence_pb.ts";
import { ProtectionService } from "../../../gen/platform/sdk/v1/protection_pb.ts";
import { RegistrationService } from "../../../gen/platform/sdk/v1/registration_pb.ts";

export const publicServices: readonly DescService[] = [
  DiscoveryService,
  ProtectionService,
  RegistrationService,
  EvidenceService,
];
