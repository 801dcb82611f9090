/** The bulk routes. Each asks many questions of one of the eight public routes, and needs that route's scopes. */
import type { SdkRoute } from "../base/vocabulary.ts";

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

export const authzenRoutes: readonly AuthzenRoute[] = [
  {
    rpc: "AuthorizationService/Evaluate",
    path: "/access/v1/evaluation",
    endpoint: "access_evaluation_endpoint",
  },
  {
    rpc: "AuthorizationService/EvaluateMany",
    path: "/access/v1/evaluations",
    endpoint: "access_evaluations_endpoint",
  },
  {
    rpc: "AuthorizationService/SearchSubjects",
    path: "/access/v1/search/subject",
    endpoint: "search_subject_endpoint",
  },
  {
    rpc: "AuthorizationService/SearchResources",
    path: "/access/v1/search/resource",
    endpoint: "search_resource_endpoint",
  },
  {
    rpc: "AuthorizationService/SearchActions",
    path: "/access/v1/search/action",
    endpoint: "search_action_endpoint",
  },
];
