import { artifactProfiles, protectionOperations } from "../../../base/vocabulary.ts";
import { routes } from "../../../domain/routes.ts";
import { head, platformDomains, type RouteExamples } from "./world.ts";

const authentication = {
  auth_mode: "bearer_token",
  auth_configuration: {
    mode: "oauth_client_credentials",
    proof_of_possession: "mtls",
    oidc_issuer: "https://issuer.example/realms/platform",
    oidc_audience: "api://svc-platform-api",
    oidc_issuer_ready: true,
    mtls_ready: true,
  },
};

export const capabilities: RouteExamples = (world) => [
  {
    name: "capabilities",
    summary: "What a workload reads at start-up.",
    answer: {
      ...head(world),
      ...authentication,
      default_required_scopes: world.scopes.defaults,
      routes: routes.map(({ route, path, domain }) => ({
        route: path,
        domain,
        configured: true,
        required_scopes: world.scopes.own(route),
      })),
    },
  },
];

export const whoami: RouteExamples = (world) => [
  { name: "caller", summary: "The caller, as its token names it.", answer: head(world, "ok") },
];

export const bootstrap: RouteExamples = (world) => [
  {
    name: "bootstrap",
    summary: "A deployment that supports every operation and profile.",
    answer: {
      ...head(world),
      ...authentication,
      enforcement_model: "embedded_local_library",
      plaintext_to_platform: false,
      policy_resolution_mode: "metadata_only_control_plane",
      supported_operations: protectionOperations,
      supported_artifact_profiles: artifactProfiles,
      platform_domains: platformDomains,
    },
  },
];
