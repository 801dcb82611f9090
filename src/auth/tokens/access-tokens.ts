/** Authenticates callers with access tokens: verified or cached, and bound to the call. */
import { type Caller, noteExpiry } from "../../base/caller.ts";
import { type DeclaredAttributes, noDeclaredAttributes } from "../../base/caller-attributes.ts";
import type { Clock } from "../../base/clock.ts";
import type { TenantId } from "../../base/ids.ts";
import type { InboundRequest } from "../../base/inbound-request.ts";
import { everyTenant, type IntrospectionRule, type IssuerEntry } from "../../base/issuers.ts";
import { createFairSemaphore, type FairSemaphore } from "../../base/semaphore.ts";
import type { Timers } from "../../base/timers.ts";
import { attributesWithin, claimedAttributes } from "../attributes.ts";
import { readAccessToken } from "../challenge.ts";
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

export interface SessionTokenRule {
  /** Their `iss`, which differs from every issuer's. */
  readonly issuer: string;
  readonly audience: string;
  readonly keys: SessionKeySource;
}

export interface TokenOptions {
  /** Empty: no issuer's tokens are accepted. */
  readonly issuers: readonly IssuerEntry[];
  /** Undefined: the service issues no tokens. */
  readonly session?: SessionTokenRule | undefined;
  /** Declared attributes of callers; none if absent. */
  readonly attributes?: DeclaredAttributes;
  readonly proofOfPossession: ProofOfPossessionRule;
  /** Longest access token in bytes. Default 8192, which common HTTP servers accept as one header line. */
  readonly maximumTokenBytes?: number;
  /** Seconds by which an issuer's clock may differ from ours. Default 30; sensible values are 0 to 300. */
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
  /** Called after each fetch of an issuer's keys. None of these callbacks may throw. */
  readonly onKeysFetched: (status: NamedStatus) => void;
  /** Called for each question to an issuer about a token, and each that was not asked. */
  readonly onIntrospected: (issuer: string, result: IntrospectionResult) => void;
  /** Called for a token that its issuer signed for a foreign tenant; once while the token is cached. */
  readonly onOverreach: (issuer: string, tenantId: TenantId) => void;
  readonly onCertificateIgnored: OnCertificateIgnored;
}

export interface AccessTokens {
  /** See `Authenticator.authenticate`. */
  authenticate(inbound: InboundRequest, signal: AbortSignal): Promise<Caller>;
  /** See `Authenticator.authenticateStill`. */
  authenticateStill(inbound: InboundRequest, signal: AbortSignal): Promise<Caller>;
  readonly issuers: Omit<TokenIssuers, "verify">;
}

/** @throws Error if an issuer identifier is invalid, or is http and not on loopback; if no tokens could be accepted */
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

/** Each issuer, the service included, has separate keys and claims: no token of one is valid as another's. */
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
