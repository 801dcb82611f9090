/** The eight public routes, which `capabilities` prints, and those of further APIs. The scope gate enforces all. */
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

/** A route of a further API. */
export interface FurtherRoute {
  readonly path: string;
  /** `Service/Method`. */
  readonly rpc: string;
  /** The route of the SDK whose scopes and refusals it has: of a bulk route, that for a single item. */
  readonly like: SdkRoute;
}

export const bulkRoutes: readonly FurtherRoute[] = [
  { path: "/v1/bulk/protection-plans", rpc: "BulkDecisionService/PlanProtections", like: "protection-plan" },
  { path: "/v1/bulk/policy-resolutions", rpc: "BulkDecisionService/ResolvePolicies", like: "policy-resolve" },
  { path: "/v1/bulk/key-access-plans", rpc: "BulkDecisionService/PlanKeyAccesses", like: "key-access-plan" },
  { path: "/v1/bulk/evidence", rpc: "BulkRecordService/RecordEvents", like: "evidence" },
  { path: "/v1/bulk/artifact-registrations", rpc: "BulkRecordService/RegisterArtifacts", like: "artifact-register" },
];

/** Streams of items, which have no path. */
export const bulkStreams: readonly Omit<FurtherRoute, "path">[] = [
  { rpc: "BulkStreamService/StreamEvents", like: "evidence" },
  { rpc: "BulkStreamService/StreamRegistrations", like: "artifact-register" },
];

const authzenTable = [
  ["Evaluate", "/access/v1/evaluation", "access_evaluation_endpoint"],
  ["EvaluateMany", "/access/v1/evaluations", "access_evaluations_endpoint"],
  ["SearchSubjects", "/access/v1/search/subject", "search_subject_endpoint"],
  ["SearchResources", "/access/v1/search/resource", "search_resource_endpoint"],
  ["SearchActions", "/access/v1/search/action", "search_action_endpoint"],
] as const;

/**
 * Each route, with the metadata member that holds its URL. A question may require more scopes; they are checked when
 * the questions are read.
 */
export const authzenRoutes = authzenTable.map(([method, path, endpoint]) => {
  return { path, rpc: `AuthorizationService/${method}`, like: "policy-resolve", endpoint } as const;
});

/** The further APIs that have JSON routes, and so a document, by the name of their setting. */
export const furtherRoutes = { bulk: bulkRoutes, authzen: authzenRoutes };
export type FurtherName = keyof typeof furtherRoutes;
export const furtherNames = Object.keys(furtherRoutes) as readonly FurtherName[];

/** Every route that has a document. */
export const documentedRoutes: readonly FurtherRoute[] = [
  ...routes.map(({ path, rpc, route }) => ({ path, rpc, like: route })),
  ...Object.values(furtherRoutes).flat(),
];

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
  const byRpc = new Map([...documentedRoutes, ...bulkStreams].map(({ rpc, like }) => [rpc, required(like)]));
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
