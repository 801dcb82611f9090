/** The table of the eight public routes, which the scope gate enforces and `capabilities` prints. */
import { evaluationPath, type SdkRoute, sdkRoutes } from "../base/vocabulary.ts";
import type { PlatformDomainName } from "./platform-domains.ts";

interface Route {
  readonly route: SdkRoute;
  /** Path of the JSON route; records have it for any protocol. */
  readonly path: `/v1/sdk/${SdkRoute}`;
  /** `Service/Method`. */
  readonly rpc: string;
  readonly domain: PlatformDomainName;
}

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

export function routePath(route: SdkRoute): Route["path"] {
  return `/v1/sdk/${route}`;
}

/** Routes of records: the eight public ones, or a question of an enforcement point. */
export type RecordedRoute = SdkRoute | "evaluation";

export function recordedPath(route: RecordedRoute): string {
  return route === "evaluation" ? evaluationPath : routePath(route);
}

export interface ScopeTable {
  /** Scopes that every route needs. */
  readonly defaults: readonly string[];
  /** Scopes that a route needs besides the defaults. */
  own(route: SdkRoute): readonly string[];
  /** Scopes that a route needs, default ones first, without duplicates. */
  required(route: SdkRoute): readonly string[];
  /** The same by `Service/Method`. Throws if the method is not in the table, so that no unlisted method is served. */
  requiredByRpc(rpc: string): readonly string[];
}

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

/** Concatenates the lists without duplicates. */
export function union(first: readonly string[], second: readonly string[]): readonly string[] {
  return [...new Set([...first, ...second])];
}

export interface BulkRoute {
  /** Path of the JSON route. */
  readonly path: `/v1/bulk/${string}`;
  /** `Service/Method`. */
  readonly rpc: string;
  /** The route for a single item. */
  readonly single: SdkRoute;
}

export const bulkRoutes: readonly BulkRoute[] = [
  { path: "/v1/bulk/protection-plans", rpc: "BulkDecisionService/PlanProtections", single: "protection-plan" },
  { path: "/v1/bulk/policy-resolutions", rpc: "BulkDecisionService/ResolvePolicies", single: "policy-resolve" },
  { path: "/v1/bulk/key-access-plans", rpc: "BulkDecisionService/PlanKeyAccesses", single: "key-access-plan" },
  { path: "/v1/bulk/evidence", rpc: "BulkRecordService/RecordEvents", single: "evidence" },
  {
    path: "/v1/bulk/artifact-registrations",
    rpc: "BulkRecordService/RegisterArtifacts",
    single: "artifact-register",
  },
];

/** Streams of items, by `Service/Method`, each with the route for a single item. */
export const bulkStreams: readonly Pick<BulkRoute, "rpc" | "single">[] = [
  { rpc: "BulkStreamService/StreamEvents", single: "evidence" },
  { rpc: "BulkStreamService/StreamRegistrations", single: "artifact-register" },
];

interface AuthzenRoute {
  /** `Service/Method`. */
  readonly rpc: string;
  readonly path: `/access/v1/${string}`;
  /** Member of the metadata with its URL. */
  readonly endpoint: string;
}

const authzenTable = [
  ["Evaluate", "/access/v1/evaluation", "access_evaluation_endpoint"],
  ["EvaluateMany", "/access/v1/evaluations", "access_evaluations_endpoint"],
  ["SearchSubjects", "/access/v1/search/subject", "search_subject_endpoint"],
  ["SearchResources", "/access/v1/search/resource", "search_resource_endpoint"],
  ["SearchActions", "/access/v1/search/action", "search_action_endpoint"],
] as const;

export const authzenRoutes: readonly AuthzenRoute[] = authzenTable.map(([method, path, endpoint]) => {
  return { rpc: `AuthorizationService/${method}`, path, endpoint };
});
