/** Combinations of settings that would start a service that is open, or that cannot work. Each refuses to start. */
import { isLoopbackHost, isLoopbackNetwork } from "../base/network.ts";
import { isOwnHeader } from "./attribute-headers.ts";
import type { Config, Key } from "./settings.ts";

interface Weakness {
  /** The settings that the rule looks at; it is passed over where one of them is not understood or not used. */
  readonly keys: readonly [Key, ...Key[]];
  /** Completes "NAME: …" with the name of the first key, where the combination is weak. */
  readonly problem: (config: Config) => string | undefined;
}

export const weaknesses: readonly Weakness[] = [
  {
    keys: ["oidcIssuer", "oidcIssuers", "authMode", "sessionClients"],
    problem: ({ oidcIssuer, oidcIssuers, authMode, sessionClients }) =>
      oidcIssuer === undefined &&
      oidcIssuers === undefined &&
      authMode !== "trusted_headers" &&
      sessionClients === undefined
        ? "is required"
        : undefined,
  },
  {
    keys: ["oidcIssuers", "oidcIssuer"],
    problem: ({ oidcIssuers, oidcIssuer }) =>
      oidcIssuers !== undefined && oidcIssuer !== undefined
        ? "and SVC_OIDC_ISSUER are not set together: the file names every issuer"
        : undefined,
  },
  {
    keys: ["oidcIssuers", "authMode"],
    problem: ({ oidcIssuers, authMode }) =>
      oidcIssuers !== undefined && authMode === "trusted_headers"
        ? "is for tokens, which SVC_AUTH_MODE=trusted_headers does not take"
        : undefined,
  },
  {
    keys: ["oidcIssuer"],
    problem: ({ oidcIssuer }) => {
      if (oidcIssuer === undefined) return undefined;
      const url = new URL(oidcIssuer);
      return url.protocol === "http:" && !isLoopbackHost(url.hostname)
        ? "must use https: plain http is accepted on loopback only"
        : undefined;
    },
  },
  {
    keys: ["listen", "tlsCert", "trustedProxies"],
    problem: ({ listen, tlsCert, trustedProxies }) =>
      !listen.loopback && tlsCert === undefined && trustedProxies.length === 0
        ? "would accept plaintext off loopback: set SVC_TLS_CERT and SVC_TLS_KEY, or name the ingress in SVC_TRUSTED_PROXIES"
        : undefined,
  },
  {
    keys: ["listen", "opsListen"],
    problem: ({ listen, opsListen }) =>
      listen.port !== 0 && listen.port === opsListen.port && listen.host === opsListen.host
        ? "is the same address as SVC_OPS_LISTEN"
        : undefined,
  },
  {
    keys: ["proofOfPossession", "tlsClientCa", "trustedProxies"],
    problem: ({ proofOfPossession, tlsClientCa, trustedProxies }) =>
      proofOfPossession === "mtls" && tlsClientCa === undefined && trustedProxies.length === 0
        ? "is mtls, but no client certificate can be seen: set SVC_TLS_CLIENT_CA, or name the ingress in SVC_TRUSTED_PROXIES"
        : undefined,
  },
  {
    keys: ["proofOfPossession", "publicUrl", "listen"],
    problem: ({ proofOfPossession, publicUrl, listen }) =>
      proofOfPossession === "dpop" && publicUrl === undefined && !listen.loopback
        ? "is dpop, but callers off loopback cannot be held to a URL: set SVC_PUBLIC_URL"
        : undefined,
  },
  {
    keys: ["dpopNonceKey", "proofOfPossession"],
    problem: ({ dpopNonceKey, proofOfPossession }) =>
      dpopNonceKey !== undefined && proofOfPossession !== "dpop" ? "needs SVC_PROOF_OF_POSSESSION=dpop" : undefined,
  },
  {
    keys: ["authMode", "trustedProxies"],
    problem: ({ authMode, trustedProxies }) =>
      authMode !== "bearer_token" && trustedProxies.length === 0
        ? "believes identity headers, but of nobody: name the ingress in SVC_TRUSTED_PROXIES"
        : undefined,
  },
  {
    keys: ["authMode", "trustedProxies", "trustedProxyCertificates", "listen"],
    problem: ({ authMode, trustedProxies, trustedProxyCertificates, listen }) =>
      authMode !== "bearer_token" &&
      !listen.loopback &&
      trustedProxyCertificates.length === 0 &&
      !trustedProxies.every(isLoopbackNetwork)
        ? "would believe identity headers over an unauthenticated hop: pin the ingress in SVC_TRUSTED_PROXY_CERTIFICATES"
        : undefined,
  },
  {
    keys: ["attributeHeaders", "authMode"],
    problem: ({ attributeHeaders, authMode }) =>
      Object.keys(attributeHeaders).length > 0 && authMode === "bearer_token"
        ? "is for identity headers, which SVC_AUTH_MODE=bearer_token does not take"
        : undefined,
  },
  {
    keys: ["attributeHeaders", "headerPrefix"],
    problem: ({ attributeHeaders, headerPrefix }) =>
      Object.values(attributeHeaders).some((header) => isOwnHeader(header, headerPrefix))
        ? "names a header that says something else"
        : undefined,
  },
  {
    keys: ["trustedProxyCertificates", "trustedProxies", "tlsClientCa"],
    problem: ({ trustedProxyCertificates, trustedProxies, tlsClientCa }) =>
      trustedProxyCertificates.length > 0 && (trustedProxies.length === 0 || tlsClientCa === undefined)
        ? "needs SVC_TRUSTED_PROXIES, and SVC_TLS_CLIENT_CA to see a certificate"
        : undefined,
  },
  {
    keys: ["tlsCert", "tlsKey"],
    problem: ({ tlsCert, tlsKey }) => (tlsCert !== undefined && tlsKey === undefined ? "needs SVC_TLS_KEY" : undefined),
  },
  {
    keys: ["tlsKey", "tlsCert"],
    problem: ({ tlsCert, tlsKey }) =>
      tlsKey !== undefined && tlsCert === undefined ? "needs SVC_TLS_CERT" : undefined,
  },
  {
    keys: ["opsTlsCert", "opsTlsKey"],
    problem: ({ opsTlsCert, opsTlsKey }) =>
      opsTlsCert !== undefined && opsTlsKey === undefined ? "needs SVC_OPS_TLS_KEY" : undefined,
  },
  {
    keys: ["opsTlsKey", "opsTlsCert"],
    problem: ({ opsTlsCert, opsTlsKey }) =>
      opsTlsKey !== undefined && opsTlsCert === undefined ? "needs SVC_OPS_TLS_CERT" : undefined,
  },
  {
    keys: ["tlsClientCa", "tlsCert"],
    problem: ({ tlsClientCa, tlsCert }) =>
      tlsClientCa !== undefined && tlsCert === undefined ? "needs SVC_TLS_CERT and SVC_TLS_KEY" : undefined,
  },
  {
    keys: ["witnessQuorum", "witnesses"],
    problem: ({ witnessQuorum, witnesses }) => {
      if (witnessQuorum === undefined) return undefined;
      if (witnesses.length === 0) return "needs SVC_WITNESSES";
      // Two quorums that share no witness could confirm two histories.
      return witnessQuorum > witnesses.length || 2 * witnessQuorum <= witnesses.length
        ? "must be more than half of the witnesses, and not more than there are"
        : undefined;
    },
  },
  {
    keys: ["sessionClients", "sessionKey"],
    problem: ({ sessionClients, sessionKey }) =>
      (sessionClients === undefined) !== (sessionKey === undefined)
        ? "and SVC_SESSION_KEY are set together or not at all"
        : undefined,
  },
  {
    keys: ["sessionClients", "authMode"],
    problem: ({ sessionClients, authMode }) =>
      sessionClients !== undefined && authMode === "trusted_headers"
        ? "is for tokens, which SVC_AUTH_MODE=trusted_headers does not take"
        : undefined,
  },
  {
    keys: ["sessionClients", "proofOfPossession"],
    problem: ({ sessionClients, proofOfPossession }) =>
      sessionClients !== undefined && proofOfPossession === "dpop"
        ? "is for tokens that are bound to no DPoP key: SVC_PROOF_OF_POSSESSION must be mtls or none"
        : undefined,
  },
  {
    keys: ["sessionClients", "publicUrl", "serviceName", "oidcIssuer"],
    problem: ({ sessionClients, publicUrl, serviceName, oidcIssuer }) =>
      sessionClients !== undefined && (publicUrl ?? serviceName) === oidcIssuer
        ? "would give its tokens the name of SVC_OIDC_ISSUER: SVC_PUBLIC_URL must be another"
        : undefined,
  },
];
