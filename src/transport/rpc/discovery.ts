import type { ServiceImpl } from "@connectrpc/connect";
import type { DiscoveryService } from "../../../gen/platform/sdk/v1/discovery_pb.ts";
import type { Deployment } from "../../domain/deployment.ts";
import { bootstrap, capabilities } from "../../domain/discovery.ts";
import type { LivePlatform } from "../../domain/platform-domains.ts";
import { callerOf } from "../calls/call.ts";
import { artifactProfile, authMode, envelope, forMessage, protectionOperation } from "./messages.ts";

/** The discovery service over its domain. `service` is the name in every answer. */
export function createDiscoveryService(
  service: string,
  { deployment, live }: { readonly deployment: Deployment; readonly live: LivePlatform },
): ServiceImpl<typeof DiscoveryService> {
  return {
    getCapabilities(_request, context) {
      const answer = forMessage(capabilities(deployment, live, callerOf(context).tenantId));
      return { ...envelope(service, callerOf(context)), ...answer, authMode: authMode[answer.authMode] };
    },
    whoAmI: (_request, context) => envelope(service, callerOf(context), "ok"),
    getBootstrap(_request, context) {
      const answer = forMessage(bootstrap(deployment, live, callerOf(context).tenantId));
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
