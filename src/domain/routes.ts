/**
 * The eight public routes, as one table. The scope gate enforces by it and `capabilities` prints it, so that a
 * deployment cannot say what it does not enforce.
 */
import { type SdkRoute, sdkRoutes } from "../base/vocabulary.ts";
import type { PlatformDomainName } from "./platform-domains.ts";

/** One row of the table. */
export interface Route {
  readonly route: SdkRoute;
  /** Path of the JSON route; stands in records, whichever protocol carried the call. */
  readonly path: `/v1/sdk/${SdkRoute}`;
  /** `Service/Method`. */
  readonly rpc: string;
  readonly domain: PlatformDomainName;
}

/** Method and domain of each route. */
const table: Readonly<Record<SdkRoute, readonly [rpc: string, domain: PlatformDomainName]>> = {
  capabilities: ["DiscoveryService/GetCapabilities", "discovery"],
  whoami: ["DiscoveryService/WhoAmI", "identity"],
  bootstrap: ["DiscoveryService/GetBootstrap", "discovery"],
  "protection-plan": ["ProtectionService/PlanProtection", "protection"],
  "policy-resolve": ["ProtectionService/ResolvePolicy", "policy"],
  "key-access-plan": ["ProtectionService/PlanKeyAccess", "key_access"],
  "artifact-register": ["RegistrationService/RegisterArtifact", "artifact_registry"],
  evidence: ["EvidenceService/RecordEvidence", "evidence_ledger"],
};

export const routes: readonly Route[] = sdkRoutes.map((route) => {
  const [rpc, domain] = table[route];
  return { route, path: routePath(route), rpc, domain };
});

/** Path of a route. */
export function routePath(route: SdkRoute): Route["path"] {
  return `/v1/sdk/${route}`;
}

/** Path that questions of enforcement points are recorded under, on whichever of the AuthZEN routes they came. */
export const evaluationPath = "/access/v1/evaluation";

/** What a record can be of: one of the eight routes, or a question of an enforcement point. */
export type RecordedRoute = SdkRoute | "evaluation";

/** Path of a route, as records have it. */
export function recordedPath(route: RecordedRoute): string {
  return route === "evaluation" ? evaluationPath : routePath(route);
}

/** Scopes by route. */
export interface ScopeTable {
  /** Scopes that every route needs. */
  readonly defaults: readonly string[];
  /** Scopes that a route needs besides the defaults. */
  own(route: SdkRoute): readonly string[];
  /** Scopes that a route needs, default ones first, each once. */
  required(route: SdkRoute): readonly string[];
  /** The same by `Service/Method`. Throws where the method is none of the table's: nothing is let through unlisted. */
  requiredByRpc(rpc: string): readonly string[];
}

/** Makes the table from a deployment's settings. */
export function createScopeTable(
  defaults: readonly string[],
  routeScopes: Readonly<Record<SdkRoute, readonly string[]>>,
): ScopeTable {
  const required = (route: SdkRoute) => union(defaults, routeScopes[route]);
  const byRoute = new Map(routes.map(({ route }) => [route, required(route)]));
  const byRpc = new Map(routes.map(({ route, rpc }) => [rpc, required(route)]));
  return {
    defaults: union(defaults, []),
    own: (route) => union(routeScopes[route], []),
    required: (route) => byRoute.get(route) ?? required(route),
    requiredByRpc: (rpc) => {
      const scopes = byRpc.get(rpc);
      if (scopes === undefined) throw new Error(`${rpc} is not in the table of routes`);
      return scopes;
    },
  };
}

/** Both lists in their order, each scope once. */
export function union(first: readonly string[], second: readonly string[]): readonly string[] {
  return [...new Set([...first, ...second])];
}
