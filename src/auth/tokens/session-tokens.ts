/** Access tokens of the service's own: made for clients of the session route, and taken beside the issuer's. */
import { createLocalJWKSet, SignJWT } from "jose";
import type { AttributeValues } from "../../base/caller-attributes.ts";
import type { Clock } from "../../base/clock.ts";
import { newRecordId, type RandomFill, type TenantId } from "../../base/ids.ts";
import { refusedToken } from "../challenge.ts";
import { candidateKeys, type FindKeys, type KeySet } from "./candidate-keys.ts";
import type { SessionKeys } from "./session-keys.ts";

/** Seconds that a token lives. */
const lifetimeSeconds = 300;

/** Claims of these tokens, whatever those of the issuer are called. */
export const sessionClaimNames = { tenant: "tenant_id", principal: "principal_id", subject: "sub", scope: "scope" };

/** The claim within which they have the caller's attributes. */
export const sessionAttributesClaim = "attributes";

/** Where the keys come from; they may change at any time. */
export interface SessionKeySource {
  readonly current: SessionKeys;
  /** Another number each time that they change. */
  readonly revision: number;
}

export interface SessionTokenOptions {
  /** `iss` of the tokens: differs from the issuer's. */
  readonly issuer: string;
  readonly audience: string;
  readonly keys: SessionKeySource;
  readonly clock: Clock;
  readonly random: RandomFill;
}

/** What a token is to say. */
export interface SessionTokenGrant {
  readonly tenantId: TenantId;
  readonly clientId: string;
  readonly scopes: readonly string[];
  /** As the client was registered; absent for none. */
  readonly attributes?: AttributeValues;
  /** Base64url SHA-256 of the client certificate that the token is bound to (RFC 8705 §3.1); undefined for none. */
  readonly certificateThumbprint: string | undefined;
}

/**
 * Makes the signer of tokens: `at+jwt` (RFC 9068), 300 seconds. Client, principal and subject are one name. A token
 * cannot be called back before it ends, but by taking its key out of the set.
 */
export function createSessionTokens({ issuer, audience, keys, clock, random }: SessionTokenOptions) {
  return {
    async sign({ tenantId, clientId, scopes, attributes, certificateThumbprint }: SessionTokenGrant) {
      const { kid, alg, privateKey } = keys.current.signing;
      const issuedAtSeconds = Math.floor(clock.now() / 1000);
      const accessToken = await new SignJWT({
        iss: issuer,
        aud: audience,
        sub: clientId,
        client_id: clientId,
        tenant_id: tenantId,
        principal_id: clientId,
        scope: scopes.join(" "),
        iat: issuedAtSeconds,
        exp: issuedAtSeconds + lifetimeSeconds,
        jti: newRecordId(clock, random),
        ...(attributes !== undefined && { [sessionAttributesClaim]: attributes }),
        ...(certificateThumbprint !== undefined && { cnf: { "x5t#S256": certificateThumbprint } }),
      })
        .setProtectedHeader({ alg, kid, typ: "at+jwt" })
        .sign(privateKey);
      return { accessToken, expiresInSeconds: lifetimeSeconds, subject: clientId };
    },
  };
}

/** Finds the key of a token among the service's own, and nowhere else. */
export function sessionKeyFinder(source: SessionKeySource): FindKeys {
  let held: { readonly revision: number; readonly keys: KeySet } | undefined;
  return async (header) => {
    const { revision } = source;
    if (held?.revision !== revision) held = { revision, keys: createLocalJWKSet(source.current.published) };
    const keys = await candidateKeys(held.keys, header);
    if (keys.length > 0) return keys;
    throw refusedToken("invalid_token", "the access token is signed by an unknown key");
  };
}
