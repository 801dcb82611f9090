import type { ServiceImpl } from "@connectrpc/connect";
import type { DiscoveryService } from "../../../gen/platform/sdk/v1/discovery_pb.ts";
import type { Discovery } from "../../domain/discovery.ts";
import { callerOf } from "../calls/call.ts";
import { artifactProfile, authMode, envelope, forMessage, protectionOperation } from "./messages.ts";

/** The discovery service over its domain. `service` is the name in every answer. */
export function createDiscoveryService(service: string, discovery: Discovery): ServiceImpl<typeof DiscoveryService> {
  return {
    getCapabilities(_request, context) {
      const answer = forMessage(discovery.capabilities(callerOf(context).tenantId));
      return { ...envelope(service, callerOf(context)), ...answer, authMode: authMode[answer.authMode] };
    },
    whoAmI: (_request, context) => envelope(service, callerOf(context), "ok"),
    getBootstrap(_request, context) {
      const answer = forMessage(discovery.bootstrap(callerOf(context).tenantId));
      return {
        ...envelope(service, callerOf(context)),
        ...answer,
        authMode: authMode[answer.authMode],
        supportedOperations: answer.supportedOperations.map((operation) => protectionOperation[operation]),
        supportedArtifactProfiles: answer.supportedArtifactProfiles.map((profile) => artifactProfile[profile]),
      };
    },
  };
}
