/** Authenticates callers by access token, by trusted headers, or by both, as configured. */
import type { Caller } from "../base/caller.ts";
import type { TenantId } from "../base/ids.ts";
import type { InboundRequest } from "../base/inbound-request.ts";
import type { IssuerEntry } from "../base/issuers.ts";
import {
  type AccessTokens,
  createAccessTokens,
  type NamedStatus,
  statusOfAll,
  type TokenDependencies,
  type TokenIssuers,
  type TokenOptions,
} from "./access-tokens.ts";
import type { IntrospectionResult } from "./introspection.ts";
import type { IssuerStatus } from "./issuer-keys.ts";
import { callerFromHeaders, type IdentityHeaderRule } from "./trusted-headers.ts";

/** With both members, any `Authorization` header decides, good or bad; other calls use identity headers. */
export interface AuthenticatorOptions {
  /** Undefined: access tokens are not accepted, and the `Authorization` header is ignored. */
  readonly tokens: TokenOptions | undefined;
  /** Undefined: identity headers are not accepted. */
  readonly identityHeaders: IdentityHeaderRule | undefined;
}

/** Events for log and metrics. They hold no secret. */
export type AuthenticatorEvent =
  | ({ readonly type: "issuer_keys_fetched" } & NamedStatus)
  // An issuer signed a token for a foreign tenant.
  | { readonly type: "issuer_overreached"; readonly issuer: string; readonly tenantId: TenantId }
  | { readonly type: "introspected"; readonly issuer: string; readonly result: IntrospectionResult }
  // A peer that is not the trusted ingress sent headers reserved to it.
  | { readonly type: "forwarded_certificate_ignored"; readonly remoteAddress: string }
  | { readonly type: "identity_headers_ignored"; readonly remoteAddress: string };

export interface AuthenticatorDependencies
  extends Omit<TokenDependencies, "onKeysFetched" | "onIntrospected" | "onOverreach" | "onCertificateIgnored"> {
  /** Must not throw. */
  readonly onEvent: (event: AuthenticatorEvent) => void;
}

export interface Authenticator {
  /**
   * Derives the caller from the credentials of a call, from headers and peer alone.
   * @param signal the call's deadline, which also ends the wait for the issuer's keys
   * @throws ServiceError `missing_token`, `invalid_token`, `expired_token`, `proof_of_possession_failed` (each with a
   *   challenge), `issuer_unavailable`, `store_unavailable`
   */
  authenticate(inbound: InboundRequest, signal: AbortSignal): Promise<Caller>;
  /** Checks an open stream's credentials again, which may have been revoked. DPoP proofs are not checked again. */
  authenticateStill(inbound: InboundRequest, signal: AbortSignal): Promise<Caller>;
  /** Whether tokens of any issuer can be verified now. */
  status(): IssuerStatus;
  /** As `TokenIssuers.ofTenant`. */
  readonly issuerOf: TokenIssuers["ofTenant"];
  /** Replaces the issuers, as `TokenIssuers.replace` does. Does nothing if access tokens are not accepted. */
  replaceIssuers(issuers: readonly IssuerEntry[]): void;
  /** Starts to fetch the issuers' keys in the background and retries until they are there. Call once. */
  start(): void;
  /** Stops background work. Idempotent. */
  close(): void;
}

/**
 * @throws Error if an issuer identifier is invalid, or is http and not on loopback, or if no credentials could be
 *   accepted
 */
export function createAuthenticator(
  { tokens, identityHeaders }: AuthenticatorOptions,
  dependencies: AuthenticatorDependencies,
): Authenticator {
  const { onEvent } = dependencies;
  const accessTokens = tokens === undefined ? undefined : openAccessTokens(tokens, dependencies);
  const issuers = accessTokens?.issuers;
  const common = {
    status: () =>
      issuers === undefined
        ? { issuerReady: false, detail: "access tokens are not accepted" }
        : statusOfAll(issuers.statuses()),
    issuerOf: (tenantId: TenantId) => issuers?.ofTenant(tenantId),
    replaceIssuers: (entries: readonly IssuerEntry[]) => issuers?.replace(entries),
    start: () => issuers?.start(),
    close: () => issuers?.close(),
  };
  if (identityHeaders === undefined) {
    if (accessTokens === undefined) throw new Error("neither access tokens nor identity headers are configured");
    const { authenticate, authenticateStill } = accessTokens;
    return { ...common, authenticate, authenticateStill };
  }
  const orByHeaders =
    (byToken: Authenticator["authenticate"] | undefined): Authenticator["authenticate"] =>
    async (inbound, signal) => {
      // Any `Authorization` header decides: a bad token must not fall back to the ingress's identity headers.
      if (byToken !== undefined && inbound.headerValues("authorization").length > 0) return byToken(inbound, signal);
      return callerFromHeaders(inbound, identityHeaders, () =>
        onEvent({ type: "identity_headers_ignored", remoteAddress: inbound.remoteAddress }),
      );
    };
  return {
    ...common,
    authenticate: orByHeaders(accessTokens?.authenticate),
    authenticateStill: orByHeaders(accessTokens?.authenticateStill),
  };
}

function openAccessTokens(options: TokenOptions, dependencies: AuthenticatorDependencies): AccessTokens {
  const { onEvent } = dependencies;
  return createAccessTokens(options, {
    ...dependencies,
    onKeysFetched: (status) => onEvent({ type: "issuer_keys_fetched", ...status }),
    onIntrospected: (issuer, result) => onEvent({ type: "introspected", issuer, result }),
    onOverreach: (issuer, tenantId) => onEvent({ type: "issuer_overreached", issuer, tenantId }),
    onCertificateIgnored: (remoteAddress) => onEvent({ type: "forwarded_certificate_ignored", remoteAddress }),
  });
}
