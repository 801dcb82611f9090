/** Authentication of callers, as security schemes. */
import type { JsonObject } from "../../base/json.ts";
import type { AuthMode, ProofOfPossession } from "../../base/vocabulary.ts";

const token =
  "OAuth 2.0 access token as a JWT (RFC9068, verified as RFC8725 says) from the published issuer, obtained with the client " +
  "credentials grant by a confidential client of the tenant. Tenant, principal, subject and scopes come from the " +
  "token alone.";

const bearer = { type: "http", scheme: "bearer", bearerFormat: "JWT" };

/** Schemes by proof of possession. A call satisfies all of them at once. */
const tokenSchemes: Readonly<Record<ProofOfPossession, Readonly<Record<string, JsonObject>>>> = {
  mtls: {
    bearer: {
      ...bearer,
      description:
        `${token}\n\nThe token is bound to the client certificate that the caller presents in the TLS handshake ` +
        "(RFC 8705): it carries the claim `cnf.x5t#S256`. The caller sends no header with its certificate; the " +
        "trusted edge does.",
    },
    certificate: {
      type: "mutualTLS",
      description: "The client certificate that the token is bound to, presented at the TLS edge.",
    },
  },
  dpop: {
    dpop: {
      type: "http",
      scheme: "DPoP",
      bearerFormat: "JWT",
      description: `${token}\n\nThe token is bound to a key of the caller, who sends a proof with every call in the header \`DPoP\` (RFC 9449).`,
    },
  },
  none: { bearer: { ...bearer, description: `${token}\n\nIn this deployment the token is bound to nothing.` } },
};

/** Security of a deployment. */
export interface Security {
  readonly schemes: JsonObject;
  /** Alternative requirements, the same for every route: tools expect scopes with OAuth 2.0 schemes only. */
  readonly requirements: readonly JsonObject[];
}

/**
 * Makes the schemes. If a trusted ingress names the caller, the caller itself sends no credentials that this document
 * could describe: that alternative is the empty requirement.
 */
export function createSecurity(authMode: AuthMode, proofOfPossession: ProofOfPossession): Security {
  const schemes = authMode === "trusted_headers" ? {} : tokenSchemes[proofOfPossession];
  const tokens = Object.fromEntries(Object.keys(schemes).map((name) => [name, []]));
  if (authMode === "bearer_token") return { schemes, requirements: [tokens] };
  return { schemes, requirements: authMode === "trusted_headers" ? [{}] : [tokens, {}] };
}
