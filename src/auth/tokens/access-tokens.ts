/** Callers that present an access token: found in the header, verified or remembered, and bound to the call. */
import type { Caller } from "../../base/caller.ts";
import { type DeclaredAttributes, noDeclaredAttributes } from "../../base/caller-attributes.ts";
import type { Clock } from "../../base/clock.ts";
import type { Sums } from "../../base/sums.ts";
import type { Timers } from "../../base/timers.ts";
import { attributesWithin, claimedAttributes } from "../attributes.ts";
import { readAccessToken } from "../authorization-header.ts";
import type { ClaimNames } from "../claims.ts";
import type { InboundRequest } from "../inbound-request.ts";
import type { OnCertificateIgnored } from "../proof/confirmation.ts";
import type { TokenBinding } from "../proof/confirmation-method.ts";
import { type ProofOfPossessionRule, possessionMethod } from "../proof/possession.ts";
import { createIssuerKeys, type IssuerKeys, type IssuerStatus } from "./issuer-keys.ts";
import {
  type SessionKeySource,
  sessionAttributesClaim,
  sessionClaimNames,
  sessionKeyFinder,
} from "./session-tokens.ts";
import { cacheVerifications } from "./token-cache.ts";
import { revisionOf, type TokenSource, verifyBySource } from "./token-sources.ts";
import { verifyToken } from "./token-verifier.ts";

const defaultMaximumTokenBytes = 8 * 1024;
const defaultClockToleranceSeconds = 30;
const defaultFetchTimeoutMs = 5_000;

/** Tokens of the service's own. */
export interface SessionTokenRule {
  /** Their `iss`, which differs from the issuer's. */
  readonly issuer: string;
  readonly keys: SessionKeySource;
}

/** What a deployment decides about access tokens. */
export interface TokenOptions {
  /** Issuer identifier: https, or http on loopback. Undefined: no issuer's tokens are taken. */
  readonly issuer: string | undefined;
  /** Undefined: none of the service's own are taken. */
  readonly session?: SessionTokenRule | undefined;
  readonly audience: string;
  /** Whether the issuer's tokens must be of the type `at+jwt`. Default false. */
  readonly requireAtJwt?: boolean;
  readonly claims: ClaimNames;
  /** What is read of callers besides; absent: nothing. */
  readonly attributes?: DeclaredAttributes;
  readonly proofOfPossession: ProofOfPossessionRule;
  /** Longest access token in bytes. Default 8192: what common HTTP servers take as one header line. */
  readonly maximumTokenBytes?: number;
  /** Seconds by which the issuer's clock may differ from ours. Default 30; 0 to 300 make sense. */
  readonly clockToleranceSeconds?: number;
  /** Milliseconds for one document of the issuer. Default 5000. */
  readonly fetchTimeoutMs?: number;
}

export interface TokenDependencies {
  readonly clock: Clock;
  readonly timers: Timers;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly fetch: typeof globalThis.fetch;
  /** As `IssuerKeysDependencies` has it. */
  readonly refetches?: Sums | undefined;
  /** Neither may throw. */
  readonly onKeysFetched: (status: IssuerStatus) => void;
  /** As `IssuerKeysDependencies` has it; must not throw either. */
  readonly onKeysChanged?: (() => void) | undefined;
  readonly onCertificateIgnored: OnCertificateIgnored;
}

export interface AccessTokens {
  /** As `Authenticator.authenticate`. */
  authenticate(inbound: InboundRequest, signal: AbortSignal): Promise<Caller>;
  status(): IssuerStatus;
  start(): void;
  followKeys(): void;
  close(): void;
}

/** @throws Error where the issuer identifier is none, or is http off loopback; where nobody's tokens are taken */
export function createAccessTokens(options: TokenOptions, dependencies: TokenDependencies): AccessTokens {
  const { clock, onCertificateIgnored } = dependencies;
  const maximumTokenBytes = options.maximumTokenBytes ?? defaultMaximumTokenBytes;
  const clockToleranceSeconds = options.clockToleranceSeconds ?? defaultClockToleranceSeconds;
  const possession = possessionMethod(options.proofOfPossession, {
    clock,
    clockToleranceSeconds,
    onCertificateIgnored,
  });
  const keys = options.issuer === undefined ? undefined : openIssuerKeys(options.issuer, options, dependencies);
  const sources = sourcesOf(options, clockToleranceSeconds, keys, clock);
  const verify = cacheVerifications(verifyBySource(sources), {
    clock,
    keyRevision: () => revisionOf(sources),
    attributeRevision: () => (options.attributes ?? noDeclaredAttributes).revision,
    clockToleranceSeconds,
  });

  async function authenticate(inbound: InboundRequest, signal: AbortSignal): Promise<Caller> {
    try {
      const token = readAccessToken(inbound, possession.scheme, maximumTokenBytes);
      const mayFetch = (claimed: TokenBinding) => possession.beforeFetch(claimed, inbound);
      const verified = await verify(token, { signal, mayFetch });
      await possession.confirm(token, verified, inbound);
      return verified.caller;
    } catch (thrown) {
      throw possession.asThrown(thrown);
    }
  }

  return {
    authenticate,
    status: () => keys?.status() ?? { issuerReady: false, detail: "no token issuer is configured" },
    start: () => keys?.start(),
    followKeys: () => void keys?.follow(),
    close: () => keys?.close(),
  };
}

function openIssuerKeys(issuer: string, options: TokenOptions, dependencies: TokenDependencies): IssuerKeys {
  return createIssuerKeys(issuer, {
    ...dependencies,
    timeoutMs: options.fetchTimeoutMs ?? defaultFetchTimeoutMs,
    onFetched: dependencies.onKeysFetched,
    onChanged: dependencies.onKeysChanged,
  });
}

/** Each with keys and claims of its own: nothing of one can pass for the other's. */
function sourcesOf(
  { issuer, session, audience, claims, attributes = noDeclaredAttributes, requireAtJwt = false }: TokenOptions,
  clockToleranceSeconds: number,
  keys: IssuerKeys | undefined,
  clock: Clock,
): [TokenSource, ...TokenSource[]] {
  const sources: TokenSource[] = [];
  if (issuer !== undefined && keys !== undefined) {
    const common = { issuer, audience, claims, clockToleranceSeconds, requireAtJwt };
    const readAttributes = claimedAttributes(attributes);
    const rules = { ...common, readAttributes, authSource: "bearer_token" } as const;
    sources.push({
      issuer,
      verify: (token, context) => verifyToken(token, rules, keys.find, clock, context),
      revision: keys.revision,
    });
  }
  if (session !== undefined) {
    if (session.issuer === issuer) throw new Error("session tokens have the name of the token issuer");
    const common = { issuer: session.issuer, audience, clockToleranceSeconds, requireAtJwt: true };
    const readAttributes = attributesWithin(sessionAttributesClaim, attributes);
    const rules = { ...common, claims: sessionClaimNames, readAttributes, authSource: "session_token" } as const;
    const findKeys = sessionKeyFinder(session.keys);
    sources.push({
      issuer: session.issuer,
      verify: (token, context) => verifyToken(token, rules, findKeys, clock, context),
      revision: () => session.keys.revision,
    });
  }
  const [first, ...others] = sources;
  if (first === undefined) throw new Error("nobody's access tokens are taken");
  return [first, ...others];
}
