/** Authenticates callers, by access token, by trusted headers, or by both, as the deployment is configured. */
import type { Caller } from "../base/caller.ts";
import type { TenantId } from "../base/ids.ts";
import type { IssuerEntry } from "../base/issuers.ts";
import type { InboundRequest } from "./inbound-request.ts";
import {
  type AccessTokens,
  createAccessTokens,
  type TokenDependencies,
  type TokenOptions,
} from "./tokens/access-tokens.ts";
import type { IntrospectionResult } from "./tokens/introspection.ts";
import type { IssuerStatus } from "./tokens/issuer-keys.ts";
import { type NamedStatus, statusOfAll, type TokenIssuers } from "./tokens/token-issuers.ts";
import { callerFromHeaders, type IdentityHeaderRule } from "./trusted-headers.ts";

/**
 * What a deployment decides. With both members a call that has an `Authorization` header is judged by its access token,
 * good or bad, and its identity headers are not looked at; any other call by its identity headers.
 */
export interface AuthenticatorOptions {
  /** Undefined: access tokens are not taken, and an `Authorization` header is not looked at. */
  readonly tokens: TokenOptions | undefined;
  /** Undefined: identity headers are not taken. */
  readonly identityHeaders: IdentityHeaderRule | undefined;
}

/** What an operator wants to know, for log and metrics. None of it is secret. */
export type AuthenticatorEvent =
  | ({ readonly type: "issuer_keys_fetched" } & NamedStatus)
  // An issuer signed a token for a tenant of which it may not speak.
  | { readonly type: "issuer_overreached"; readonly issuer: string; readonly tenantId: TenantId }
  | { readonly type: "introspected"; readonly issuer: string; readonly result: IntrospectionResult }
  // Somebody who is not the trusted ingress sent what only it may say.
  | { readonly type: "forwarded_certificate_ignored"; readonly remoteAddress: string }
  | { readonly type: "identity_headers_ignored"; readonly remoteAddress: string };

/** What the machine provides. */
export interface AuthenticatorDependencies
  extends Omit<TokenDependencies, "onKeysFetched" | "onIntrospected" | "onOverreach" | "onCertificateIgnored"> {
  /** Must not throw. */
  readonly onEvent: (event: AuthenticatorEvent) => void;
}

/** Says who is calling. */
export interface Authenticator {
  /**
   * Derives the caller from the credentials of a call; reads headers and peer only.
   * @param signal the call's deadline: ends the wait for the issuer's keys
   * @throws ServiceError `missing_token`, `invalid_token`, `expired_token`, `proof_of_possession_failed` (each with a
   *   challenge), `issuer_unavailable`, `store_unavailable`
   */
  authenticate(inbound: InboundRequest, signal: AbortSignal): Promise<Caller>;
  /**
   * The same for a call that goes on, whose credentials may have been called back since it began. A DPoP proof, which counts
   * once, is not looked at again.
   */
  authenticateStill(inbound: InboundRequest, signal: AbortSignal): Promise<Caller>;
  /** Whether tokens can be verified now, of any issuer at all; truthful at the moment of the call. */
  status(): IssuerStatus;
  /** As `TokenIssuers.ofTenant`. */
  readonly issuerOf: TokenIssuers["ofTenant"];
  /** Takes these issuers from now on, as `TokenIssuers.replace` does; nothing where no access tokens are taken. */
  replaceIssuers(issuers: readonly IssuerEntry[]): void;
  /** Begins to fetch the issuers' keys in the background, and goes on until they are there. Call once. */
  start(): void;
  /** Stops what runs in the background; idempotent. */
  close(): void;
}

/** @throws Error where the issuer identifier is none, or is http off loopback, and where nobody could ever be let in */
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
        ? { issuerReady: false, detail: "access tokens are not taken" }
        : statusOfAll(issuers.statuses()),
    issuerOf: (tenantId: TenantId) => issuers?.ofTenant(tenantId),
    replaceIssuers: (entries: readonly IssuerEntry[]) => issuers?.replace(entries),
    start: () => issuers?.start(),
    close: () => issuers?.close(),
  };
  if (identityHeaders === undefined) {
    if (accessTokens === undefined) throw new Error("neither access tokens nor identity headers are taken");
    const { authenticate, authenticateStill } = accessTokens;
    return { ...common, authenticate, authenticateStill };
  }
  const orByHeaders =
    (byToken: Authenticator["authenticate"] | undefined): Authenticator["authenticate"] =>
    async (inbound, signal) => {
      // A header that is there at all decides: a bad token must not become whoever the ingress would name.
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
