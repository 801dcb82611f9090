/** Answers of the three discovery routes. They are not recorded. */
import type { TenantId } from "../base/ids.ts";
import type { Deployment } from "./deployment.ts";
import { type LivePlatform, platformDomains } from "./platform-domains.ts";
import { routes } from "./routes.ts";

export function capabilities({ scopes }: Deployment, live: LivePlatform, tenantId: TenantId) {
  const domains = platformDomains(live, tenantId);
  return {
    authMode: live.authMode,
    authConfiguration: live.authConfiguration(tenantId),
    defaultRequiredScopes: scopes.defaults,
    routes: routes.map(({ route, path, domain }) => ({
      route: path,
      domain,
      configured: domains.some((one) => one.domain === domain && one.configured),
      /** Without the default ones. */
      requiredScopes: scopes.own(route),
    })),
  };
}

export function bootstrap(deployment: Deployment, live: LivePlatform, tenantId: TenantId) {
  return {
    authMode: live.authMode,
    authConfiguration: live.authConfiguration(tenantId),
    enforcementModel: "embedded_local_library",
    plaintextToPlatform: false,
    policyResolutionMode: "metadata_only_control_plane",
    supportedOperations: deployment.supportedOperations,
    supportedArtifactProfiles: deployment.supportedProfiles,
    platformDomains: platformDomains(live, tenantId),
  };
}
