/** Answers of the three discovery routes. They are not recorded. */
import type { TenantId } from "../base/ids.ts";
import type { ArtifactProfile, AuthMode, ProtectionOperation } from "../base/vocabulary.ts";
import type { Deployment } from "./deployment.ts";
import {
  type AuthConfiguration,
  type LivePlatform,
  type PlatformDomain,
  platformDomains,
  platformStatus,
} from "./platform-domains.ts";
import { routes } from "./routes.ts";

interface Capabilities {
  readonly authMode: AuthMode;
  readonly authConfiguration: AuthConfiguration;
  readonly defaultRequiredScopes: readonly string[];
  readonly routes: readonly {
    readonly route: string;
    readonly domain: string;
    readonly configured: boolean;
    /** Without the default ones. */
    readonly requiredScopes: readonly string[];
  }[];
}

interface Bootstrap {
  readonly authMode: AuthMode;
  readonly authConfiguration: AuthConfiguration;
  readonly enforcementModel: "embedded_local_library";
  readonly plaintextToPlatform: false;
  readonly policyResolutionMode: "metadata_only_control_plane";
  readonly supportedOperations: readonly ProtectionOperation[];
  readonly supportedArtifactProfiles: readonly ArtifactProfile[];
  readonly platformDomains: readonly PlatformDomain[];
}

export interface Discovery {
  capabilities(tenantId: TenantId): Capabilities;
  bootstrap(tenantId: TenantId): Bootstrap;
}

export function createDiscovery(deployment: Deployment, live: LivePlatform): Discovery {
  const { scopes } = deployment;
  return {
    capabilities(tenantId) {
      const status = platformStatus(live, tenantId);
      return {
        authMode: live.authMode,
        authConfiguration: live.authConfiguration(tenantId),
        defaultRequiredScopes: scopes.defaults,
        routes: routes.map(({ route, path, domain }) => ({
          route: path,
          domain,
          configured: status[domain].configured,
          requiredScopes: scopes.own(route),
        })),
      };
    },
    bootstrap: (tenantId) => ({
      authMode: live.authMode,
      authConfiguration: live.authConfiguration(tenantId),
      enforcementModel: "embedded_local_library",
      plaintextToPlatform: false,
      policyResolutionMode: "metadata_only_control_plane",
      supportedOperations: deployment.supportedOperations,
      supportedArtifactProfiles: deployment.supportedProfiles,
      platformDomains: platformDomains(live, tenantId),
    }),
  };
}
