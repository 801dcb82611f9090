/** Callers that present an access token: found in the header, verified or remembered, and bound to the call. */
import { type Caller, noteExpiry } from "../../base/caller.ts";
import { type DeclaredAttributes, noDeclaredAttributes } from "../../base/caller-attributes.ts";
import type { Clock } from "../../base/clock.ts";
import type { TenantId } from "../../base/ids.ts";
import { everyTenant, type IntrospectionRule, type IssuerEntry } from "../../base/issuers.ts";
import { createFairSemaphore, type FairSemaphore } from "../../base/semaphore.ts";
import type { Timers } from "../../base/timers.ts";
import { attributesWithin, claimedAttributes } from "../attributes.ts";
import { readAccessToken } from "../challenge.ts";
import type { InboundRequest } from "../inbound-request.ts";
import type { OnCertificateIgnored } from "../proof/confirmation.ts";
import { type PossessionMethod, type ProofOfPossessionRule, possessionMethod } from "../proof/possession.ts";
import type { FindKeys } from "./candidate-keys.ts";
import { createIntrospection, type IntrospectionResult } from "./introspection.ts";
import { createIssuerKeys, type IssuerKeys } from "./issuer-keys.ts";
import {
  type SessionKeySource,
  sessionAttributesClaim,
  sessionClaimNames,
  sessionKeyFinder,
} from "./session-tokens.ts";
import { cacheVerifications, type VerifiedToken, type Verify } from "./token-cache.ts";
import { createTokenIssuers, type NamedStatus, type TokenIssuers, type TokenSource } from "./token-issuers.ts";
import { signatureLimits, type VerifierRules, verifyToken } from "./token-verifier.ts";

const defaultMaximumTokenBytes = 8 * 1024;
const defaultClockToleranceSeconds = 30;
const defaultFetchTimeoutMs = 5_000;

/** Tokens of the service's own. */
export interface SessionTokenRule {
  /** Their `iss`, which is no issuer's. */
  readonly issuer: string;
  readonly audience: string;
  readonly keys: SessionKeySource;
}

/** What a deployment decides about access tokens. */
export interface TokenOptions {
  /** Empty: no issuer's tokens are taken. */
  readonly issuers: readonly IssuerEntry[];
  /** Undefined: none of the service's own are taken. */
  readonly session?: SessionTokenRule | undefined;
  /** What is read of callers besides; absent: nothing. */
  readonly attributes?: DeclaredAttributes;
  readonly proofOfPossession: ProofOfPossessionRule;
  /** Longest access token in bytes. Default 8192: what common HTTP servers take as one header line. */
  readonly maximumTokenBytes?: number;
  /** Seconds by which an issuer's clock may differ from ours. Default 30; 0 to 300 make sense. */
  readonly clockToleranceSeconds?: number;
  /** Milliseconds for one document of an issuer. Default 5000. */
  readonly fetchTimeoutMs?: number;
}

export interface TokenDependencies {
  readonly clock: Clock;
  readonly timers: Timers;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly fetch: typeof globalThis.fetch;
  /** Content of a file of credentials, as UTF-8. */
  readonly readFile: (path: string) => Promise<string>;
  /** Told after each fetch of an issuer's keys how it went. None of these may throw. */
  readonly onKeysFetched: (status: NamedStatus) => void;
  /** Told of each time that an issuer was asked about a token, or would have been. */
  readonly onIntrospected: (issuer: string, result: IntrospectionResult) => void;
  /** Told of a token that the issuer signed for a tenant of which it may not speak; of one that is remembered, once. */
  readonly onOverreach: (issuer: string, tenantId: TenantId) => void;
  readonly onCertificateIgnored: OnCertificateIgnored;
}

export interface AccessTokens {
  /** As `Authenticator.authenticate`. */
  authenticate(inbound: InboundRequest, signal: AbortSignal): Promise<Caller>;
  /** As `Authenticator.authenticateStill`. */
  authenticateStill(inbound: InboundRequest, signal: AbortSignal): Promise<Caller>;
  readonly issuers: Omit<TokenIssuers, "verify">;
}

/** @throws Error where an issuer identifier is none, or is http off loopback; where nobody's tokens are taken */
export function createAccessTokens(options: TokenOptions, dependencies: TokenDependencies): AccessTokens {
  const { clock, onCertificateIgnored } = dependencies;
  const maximumTokenBytes = options.maximumTokenBytes ?? defaultMaximumTokenBytes;
  const clockToleranceSeconds = options.clockToleranceSeconds ?? defaultClockToleranceSeconds;
  const signatures = createFairSemaphore(signatureLimits);
  const possession = possessionMethod(options.proofOfPossession, {
    clock,
    clockToleranceSeconds,
    onCertificateIgnored,
    signatures,
  });
  const { verify, ...issuers } = openIssuers(options, clockToleranceSeconds, signatures, dependencies);

  async function callerBy(
    confirm: (...shown: Parameters<PossessionMethod["confirm"]>) => void | Promise<void>,
    inbound: InboundRequest,
    signal: AbortSignal,
  ): Promise<Caller> {
    try {
      const token = readAccessToken(inbound, possession.scheme, maximumTokenBytes);
      const mayVerify = async (claimed: VerifiedToken | "unknown") =>
        possession.beforeSignature(token, claimed, inbound);
      const verified = await verify(token, { signal, mayVerify });
      await confirm(token, verified, inbound, signal);
      noteExpiry(verified.caller, verified.expiresAtMs + clockToleranceSeconds * 1000);
      return verified.caller;
    } catch (thrown) {
      throw possession.asThrown(thrown);
    }
  }

  return {
    authenticate: (inbound, signal) => callerBy(possession.confirm, inbound, signal),
    authenticateStill: (inbound, signal) =>
      callerBy((_token, verified) => possession.confirmStill(verified, inbound), inbound, signal),
    issuers,
  };
}

/** Each issuer with keys and claims of its own, the service itself too: nothing of one can pass for another's. */
function openIssuers(
  { issuers, session, attributes = noDeclaredAttributes, fetchTimeoutMs = defaultFetchTimeoutMs }: TokenOptions,
  clockToleranceSeconds: number,
  signatures: FairSemaphore,
  dependencies: TokenDependencies,
): TokenIssuers {
  const { clock, onKeysFetched, onIntrospected, onOverreach } = dependencies;
  const closing = new AbortController();
  const remember = (verify: Verify, revision: () => number | undefined, sharers?: number) =>
    cacheVerifications(verify, {
      clock,
      keyRevision: revision,
      attributeRevision: () => attributes.revision,
      clockToleranceSeconds,
      ...(sharers !== undefined && { issuers: sharers }),
    });
  const openKeys = (issuer: string) =>
    createIssuerKeys(issuer, {
      ...dependencies,
      timeoutMs: fetchTimeoutMs,
      onFetched: (status) => onKeysFetched({ issuer, ...status }),
    });
  const rulesOf = (entry: IssuerEntry): VerifierRules => ({
    ...entry,
    clockToleranceSeconds,
    readAttributes: claimedAttributes(attributes),
    authSource: "bearer_token",
    signatures,
    onOverreach: (tenantId) => onOverreach(entry.issuer, tenantId),
  });
  const verifier =
    (rules: VerifierRules, findKeys: FindKeys): Verify =>
    (token, context) =>
      verifyToken(token, rules, findKeys, clock, context);
  const openSource = (entry: IssuerEntry, keys: IssuerKeys, sharers: number): TokenSource => ({
    verify: remember(verifier(rulesOf(entry), keys.find), keys.revision, sharers),
  });
  const openIntrospection = (entry: IssuerEntry, rule: IntrospectionRule, sharers: number): TokenSource => {
    const { issuer } = entry;
    const { verify, status } = createIntrospection(rule, rulesOf(entry), {
      ...dependencies,
      timeoutMs: fetchTimeoutMs,
      signal: closing.signal,
      onAnswered: (result) => onIntrospected(issuer, result),
    });
    return { verify: remember(verify, () => 0, sharers), status };
  };
  const openOwn = ({ issuer, audience, keys }: SessionTokenRule) => {
    const entry = { issuer, audience, requireAtJwt: true, claims: sessionClaimNames, tenants: everyTenant };
    const readAttributes = attributesWithin(sessionAttributesClaim, attributes);
    const rules = { ...entry, clockToleranceSeconds, readAttributes, signatures, onOverreach: () => {} };
    const verify = verifier({ ...rules, authSource: "session_token" }, sessionKeyFinder(keys));
    return { issuer, source: { verify: remember(verify, () => keys.revision) } };
  };
  const own = session && openOwn(session);
  const opened = createTokenIssuers({ issuers, own, openKeys, openSource, openIntrospection });
  return {
    ...opened,
    close() {
      closing.abort();
      opened.close();
    },
  };
}
