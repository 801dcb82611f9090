/** What enforcement points find the service by (AuthZEN Authorization API 1.0, Policy Decision Point Metadata). */
import { authzenRoutes } from "../domain/authzen-routes.ts";

export const authzenMetadataPath = "/.well-known/authzen-configuration";

/** @param publicUrl of the service: where it is reached is never taken from what a request says */
export function authzenMetadata(publicUrl: string): Readonly<Record<string, string>> {
  const base = publicUrl.replace(/\/+$/, "");
  return {
    policy_decision_point: base,
    ...Object.fromEntries(authzenRoutes.map(({ endpoint, path }) => [endpoint, `${base}${path}`])),
  };
}
