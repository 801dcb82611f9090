/** Settings of authentication: credentials, token issuers, and the claims of their tokens. */
import { authModes, proofsOfPossession } from "../base/vocabulary.ts";
import { attributeHeaders } from "./attribute-headers.ts";
import { audience, claimName, issuer, oneOf, onOff, path } from "./parsers.ts";
import { given, optional, type Setting } from "./raw.ts";

export const callerSettings = {
  authMode: given(
    "SVC_AUTH_MODE",
    "bearer_token",
    oneOf(authModes),
    `How callers prove who they are: ${authModes.join(", ")}`,
  ),
  proofOfPossession: given(
    "SVC_PROOF_OF_POSSESSION",
    "mtls",
    oneOf(proofsOfPossession),
    `What a token is bound to: ${proofsOfPossession.join(", ")}`,
  ),
  dpopNonceKey: optional(
    "SVC_DPOP_NONCE_KEY",
    "proofs need no nonce",
    path,
    "File with a secret of 32 characters or more, the same for all replicas: DPoP proofs must carry a nonce derived from it",
  ),
  oidcIssuer: optional(
    "SVC_OIDC_ISSUER",
    "none; this or SVC_OIDC_ISSUERS is needed if access tokens are accepted",
    issuer,
    "Token issuer for every tenant; http on loopback only",
  ),
  oidcIssuers: optional(
    "SVC_OIDC_ISSUERS",
    "SVC_OIDC_ISSUER alone",
    path,
    "YAML or JSON file of token issuers, in place of SVC_OIDC_ISSUER, with their claims and tenants",
  ),
  oidcAudience: given("SVC_OIDC_AUDIENCE", "api://svc-platform-api", audience, "Audience that a token must carry"),
  requireAtJwt: given(
    "SVC_REQUIRE_AT_JWT",
    "off",
    onOff,
    "Whether the issuer's access tokens must have typ at+jwt (RFC 9068); else JWT or none is accepted",
  ),
  tenantClaim: given("SVC_TENANT_CLAIM", "tenant_id", claimName, "Claim with the tenant id"),
  principalClaim: given("SVC_PRINCIPAL_CLAIM", "principal_id", claimName, "Claim with the principal id"),
  subjectClaim: given("SVC_SUBJECT_CLAIM", "sub", claimName, "Claim with the subject"),
  scopeClaim: given("SVC_SCOPE_CLAIM", "scope", claimName, "Claim with the scopes"),
  attributeHeaders: given(
    "SVC_ATTRIBUTE_HEADERS",
    "{}",
    attributeHeaders,
    "Headers in which the ingress sends attributes that the policy manifest declares: a map from attribute to header",
  ),
} as const satisfies Record<string, Setting<unknown>>;
