/**
 * The eight public routes, as one table. The scope gate enforces by it and `capabilities` prints it, so that a
 * deployment cannot say what it does not enforce.
 */
import type { SdkRoute } from "../base/vocabulary.ts";
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

export const routes: readonly Route[] = [
  row("capabilities", "DiscoveryService/GetCapabilities", "discovery"),
  row("whoami", "DiscoveryService/WhoAmI", "identity"),
  row("bootstrap", "DiscoveryService/GetBootstrap", "discovery"),
  row("protection-plan", "ProtectionService/PlanProtection", "protection"),
  row("policy-resolve", "ProtectionService/ResolvePolicy", "policy"),
  row("key-access-plan", "ProtectionService/PlanKeyAccess", "key_access"),
  row("artifact-register", "RegistrationService/RegisterArtifact", "artifact_registry"),
  row("evidence", "EvidenceService/RecordEvidence", "evidence_ledger"),
];

function row(route: SdkRoute, rpc: string, domain: PlatformDomainName): Route {
  return { route, path: `/v1/sdk/${route}`, rpc, domain };
}

/** Path of a route. */
export function routePath(route: SdkRoute): Route["path"] {
  return `/v1/sdk/${route}`;
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
