/** A gateway for enforcement points, and the words of what they ask. */
import { join } from "node:path";
import { defaultClient } from "../../dev/issuer.ts";
import { type Gateway, startGateway } from "./gateway.ts";

/** Policies for the published scenarios. */
export const authzenPolicies = join(import.meta.dirname, "../fixtures/authzen");

/** Of a client that asks about itself alone; the issuer's client may be given `decisions.delegate` too. */
export const ordinaryScopes = defaultClient().scopes;

/** Serves enforcement points under these policies. */
export function startAuthzen(policies = authzenPolicies, env: Readonly<Record<string, string>> = {}): Promise<Gateway> {
  return startGateway({
    env: { SVC_POLICY_DIR: policies, SVC_AUTHZEN: "on", ...env },
    issuer: { clients: [{ ...defaultClient(), scopes: [...ordinaryScopes, "decisions.delegate"] }] },
  });
}

const named = (type: string) => (id: string, properties?: object) => ({ type, id, ...(properties && { properties }) });
export const user = named("user");
export const record = named("record");
