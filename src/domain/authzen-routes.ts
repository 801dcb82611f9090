/** The routes of enforcement points (AuthZEN Authorization API 1.0, HTTPS JSON Binding). */

export interface AuthzenRoute {
  /** `Service/Method`. */
  readonly rpc: string;
  readonly path: `/access/v1/${string}`;
  /** Member of the metadata that names it. */
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
