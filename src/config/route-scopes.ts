/** `SVC_ROUTE_SCOPES`: the scopes that a route needs besides the defaults. */
import { type SdkRoute, sdkRoutes } from "../base/vocabulary.ts";
import { scope } from "./parsers.ts";
import { map, ValueProblem } from "./raw.ts";

/** Scopes of every route; an empty list where only the defaults are needed. */
export type RouteScopes = Readonly<Record<SdkRoute, readonly string[]>>;

/** Scopes of the routes that the setting does not name. */
export const defaultRouteScopes: RouteScopes = {
  capabilities: [],
  whoami: [],
  bootstrap: [],
  "protection-plan": ["policy.read"],
  "policy-resolve": ["policy.read"],
  "key-access-plan": ["keys.use"],
  "artifact-register": ["artifacts.write"],
  evidence: ["evidence.write"],
};

/** A map from route, as the last part of its path, to a list of scopes, which replaces that route's default. */
export const routeScopes = map((routes): RouteScopes => {
  const scopes = Object.entries(routes).map(([route, list]): [string, readonly string[]] => {
    if (!sdkRoutes.some((known) => known === route)) {
      throw new ValueProblem(`has an unknown route; the routes are ${sdkRoutes.join(", ")}`);
    }
    if (!Array.isArray(list) || !list.every((item) => typeof item === "string")) {
      throw new ValueProblem(`needs a list of scopes for route ${route}`);
    }
    return [route, list.map(scope)];
  });
  return { ...defaultRouteScopes, ...Object.fromEntries(scopes) };
});
