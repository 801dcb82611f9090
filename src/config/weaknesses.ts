/** Combinations of settings that would start an insecure service, or one that cannot work. Each refuses to start. */
import { isLoopbackNetwork } from "../base/network.ts";
import type { Config, Key } from "./settings.ts";

interface Weakness {
  /** The settings of the rule, which is skipped if one of them is invalid or not used. */
  readonly keys: readonly [Key, ...Key[]];
  readonly isWeak: (config: Config) => boolean;
  /** Completes "NAME: …" with the name of the first key. */
  readonly problem: string;
}

/** A combination of settings that is weak if the condition holds. */
function weak<const Keys extends readonly [Key, ...Key[]]>(
  keys: Keys,
  isWeak: (config: Pick<Config, Keys[number]>) => boolean,
  problem: string,
): Weakness {
  return { keys, isWeak, problem };
}

/** The first setting requires the second. */
function needs(key: Key, needed: Key, problem: string): Weakness {
  return weak([key, needed], (config) => config[key] !== undefined && config[needed] === undefined, problem);
}

/** The setting requires that callers send tokens. */
function needsTokens(key: "oidcIssuers" | "opentdf" | "sessionClients", what: string): Weakness {
  const problem = `${what}, which SVC_AUTH_MODE=trusted_headers does not take`;
  return weak([key, "authMode"], (config) => Boolean(config[key]) && config.authMode === "trusted_headers", problem);
}

/** Headers under the service's own prefix. */
const ownHeaders: readonly string[] = [
  ...["tenant-id", "user-id", "subject", "scopes", "mtls-client-certificate", "receipt"],
];

export const weaknesses: readonly Weakness[] = [
  weak(
    ["oidcIssuer", "oidcIssuers", "authMode", "sessionClients"],
    ({ oidcIssuer, oidcIssuers, authMode, sessionClients }) =>
      authMode !== "trusted_headers" && (oidcIssuer ?? oidcIssuers ?? sessionClients) === undefined,
    "is required",
  ),
  weak(
    ["oidcIssuers", "oidcIssuer"],
    ({ oidcIssuers, oidcIssuer }) => oidcIssuers !== undefined && oidcIssuer !== undefined,
    "and SVC_OIDC_ISSUER are not set together: the file names every issuer",
  ),
  needsTokens("oidcIssuers", "is for tokens"),
  needsTokens("opentdf", "needs tokens of users"),
  weak(
    ["listen", "tlsCert", "trustedProxies"],
    ({ listen, tlsCert, trustedProxies }) => !listen.loopback && tlsCert === undefined && trustedProxies.length === 0,
    "would accept plaintext off loopback: set SVC_TLS_CERT and SVC_TLS_KEY, or name the ingress in SVC_TRUSTED_PROXIES",
  ),
  weak(
    ["listen", "opsListen"],
    ({ listen, opsListen }) => listen.port !== 0 && listen.port === opsListen.port && listen.host === opsListen.host,
    "is the same address as SVC_OPS_LISTEN",
  ),
  weak(
    ["proofOfPossession", "tlsClientCa", "trustedProxies"],
    ({ proofOfPossession, tlsClientCa, trustedProxies }) =>
      proofOfPossession === "mtls" && tlsClientCa === undefined && trustedProxies.length === 0,
    "is mtls, but no client certificate can be seen: set SVC_TLS_CLIENT_CA, or name the ingress in SVC_TRUSTED_PROXIES",
  ),
  weak(
    ["proofOfPossession", "publicUrl", "listen"],
    ({ proofOfPossession, publicUrl, listen }) =>
      proofOfPossession === "dpop" && publicUrl === undefined && !listen.loopback,
    "is dpop, but callers off loopback cannot be held to a URL: set SVC_PUBLIC_URL",
  ),
  weak(
    ["dpopNonceKey", "proofOfPossession"],
    ({ dpopNonceKey, proofOfPossession }) => dpopNonceKey !== undefined && proofOfPossession !== "dpop",
    "needs SVC_PROOF_OF_POSSESSION=dpop",
  ),
  weak(
    ["authMode", "trustedProxies"],
    ({ authMode, trustedProxies }) => authMode !== "bearer_token" && trustedProxies.length === 0,
    "accepts identity headers, but from no ingress: name the ingress in SVC_TRUSTED_PROXIES",
  ),
  weak(
    ["authMode", "trustedProxies", "trustedProxyCertificates", "listen"],
    ({ authMode, trustedProxies, trustedProxyCertificates, listen }) =>
      authMode !== "bearer_token" &&
      !listen.loopback &&
      trustedProxyCertificates.length === 0 &&
      !trustedProxies.every(isLoopbackNetwork),
    "would accept identity headers over an unauthenticated hop: pin the ingress in SVC_TRUSTED_PROXY_CERTIFICATES",
  ),
  weak(
    ["attributeHeaders", "authMode"],
    ({ attributeHeaders, authMode }) => Object.keys(attributeHeaders).length > 0 && authMode === "bearer_token",
    "is for identity headers, which SVC_AUTH_MODE=bearer_token does not take",
  ),
  weak(
    ["attributeHeaders", "headerPrefix"],
    ({ attributeHeaders, headerPrefix }) =>
      Object.values(attributeHeaders).some((header) => ownHeaders.some((name) => header === headerPrefix + name)),
    "names a header that says something else",
  ),
  weak(
    ["trustedProxyCertificates", "trustedProxies", "tlsClientCa"],
    ({ trustedProxyCertificates, trustedProxies, tlsClientCa }) =>
      trustedProxyCertificates.length > 0 && (trustedProxies.length === 0 || tlsClientCa === undefined),
    "needs SVC_TRUSTED_PROXIES, and SVC_TLS_CLIENT_CA to see a certificate",
  ),
  needs("tlsCert", "tlsKey", "needs SVC_TLS_KEY"),
  needs("tlsKey", "tlsCert", "needs SVC_TLS_CERT"),
  weak(
    ["consoleSignIn", "opsListen", "opsTlsCert"],
    ({ consoleSignIn, opsListen, opsTlsCert }) =>
      consoleSignIn !== undefined && !opsListen.loopback && opsTlsCert === undefined,
    "would send sessions in plaintext off loopback: set SVC_OPS_TLS_CERT and SVC_OPS_TLS_KEY",
  ),
  needs("opsTlsCert", "opsTlsKey", "needs SVC_OPS_TLS_KEY"),
  needs("opsTlsKey", "opsTlsCert", "needs SVC_OPS_TLS_CERT"),
  needs("tlsClientCa", "tlsCert", "needs SVC_TLS_CERT and SVC_TLS_KEY"),
  weak(
    ["witnessQuorum", "witnesses"],
    ({ witnessQuorum, witnesses }) => witnessQuorum !== undefined && witnesses.length === 0,
    "needs SVC_WITNESSES",
  ),
  weak(
    ["witnessQuorum", "witnesses"],
    // Two quorums that share no witness could confirm two histories.
    ({ witnessQuorum = 0, witnesses: { length } }) =>
      witnessQuorum > 0 && length > 0 && (witnessQuorum > length || 2 * witnessQuorum <= length),
    "must be more than half of the witnesses, and not more than there are",
  ),
  weak(
    ["sessionClients", "sessionKey"],
    ({ sessionClients, sessionKey }) => (sessionClients === undefined) !== (sessionKey === undefined),
    "and SVC_SESSION_KEY are set together or not at all",
  ),
  needsTokens("sessionClients", "is for tokens"),
  weak(
    ["sessionClients", "proofOfPossession"],
    ({ sessionClients, proofOfPossession }) => sessionClients !== undefined && proofOfPossession === "dpop",
    "is for tokens that are bound to no DPoP key: SVC_PROOF_OF_POSSESSION must be mtls or none",
  ),
  weak(
    ["sessionClients", "publicUrl", "serviceName", "oidcIssuer"],
    ({ sessionClients, publicUrl, serviceName, oidcIssuer }) =>
      sessionClients !== undefined && (publicUrl ?? serviceName) === oidcIssuer,
    "would give its tokens the name of SVC_OIDC_ISSUER: SVC_PUBLIC_URL must be another",
  ),
];
