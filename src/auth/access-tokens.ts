/**
 * Authenticates callers with access tokens: verified or cached, and bound to the call. Each accepted issuer has separate
 * keys, claims, tenants and cache; issuers can be replaced at run time.
 */
import { isDeepStrictEqual } from "node:util";
import { decodeJwt } from "jose";
import { type Caller, type DeclaredAttributes, noDeclaredAttributes, noteExpiry } from "../base/caller.ts";
import { type Clock, clockToleranceSeconds } from "../base/clock.ts";
import { createFairSemaphore, type FairSemaphore } from "../base/fair-queue.ts";
import type { TenantId } from "../base/ids.ts";
import type { InboundRequest } from "../base/inbound-request.ts";
import { everyTenant, type IssuerEntry, speaksFor } from "../base/issuers.ts";
import { orUndefined } from "../base/json.ts";
import type { Timers } from "../base/timers.ts";
import type { FindKeys } from "./candidate-keys.ts";
import { readAccessToken, refusedToken } from "./challenge.ts";
import { claimedAttributes } from "./claims.ts";
import { createIntrospection, type IntrospectionResult } from "./introspection.ts";
import { createIssuerFetch } from "./issuer-documents.ts";
import { createIssuerKeys, type IssuerKeys, type IssuerStatus } from "./issuer-keys.ts";
import { type PossessionMethod, type ProofOfPossessionRule, possessionMethod } from "./possession.ts";
import {
  type SessionTokenRule,
  sessionAttributesClaim,
  sessionClaimNames,
  sessionKeyFinder,
} from "./session-tokens.ts";
import { cacheVerifications, type RequireVerified, type VerifiedToken, type Verify } from "./token-cache.ts";
import { signatureLimits, type VerifierRules, verifyToken } from "./token-verifier.ts";

/** Longest access token, which common HTTP servers accept as one header line. */
const maximumTokenBytes = 8 * 1024;

export interface TokenOptions {
  /** As checked when they were read: no two speak for one tenant. Empty: no issuer's tokens are accepted. */
  readonly issuers: readonly IssuerEntry[];
  /** Undefined: the service issues no tokens. */
  readonly session?: SessionTokenRule | undefined;
  /** Declared attributes of callers; none if absent. */
  readonly attributes?: DeclaredAttributes;
  readonly proofOfPossession: ProofOfPossessionRule;
  /** Path of the PEM file of the authorities that issuers' certificates must come from; default: the system's. */
  readonly authoritiesFile?: string | undefined;
}

export interface TokenDependencies {
  readonly clock: Clock;
  readonly timers: Timers;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly fetch: typeof globalThis.fetch;
  /** Content of a file of credentials, as UTF-8. */
  readonly readFile: (path: string) => Promise<string>;
  /** Must not throw. */
  readonly onEvent: (event: AuthenticatorEvent) => void;
}

/** Events for log and metrics. They hold no secret. */
export type AuthenticatorEvent =
  | ({ readonly type: "issuer_keys_fetched" } & NamedStatus)
  // An issuer signed a token for a foreign tenant; once while the token is cached.
  | { readonly type: "issuer_overreached"; readonly issuer: string; readonly tenantId: TenantId }
  // A question to an issuer about a token, or one that was not asked.
  | { readonly type: "introspected"; readonly issuer: string; readonly result: IntrospectionResult }
  // A peer that is not the trusted ingress sent headers reserved to it.
  | { readonly type: "forwarded_certificate_ignored"; readonly remoteAddress: string }
  | { readonly type: "identity_headers_ignored"; readonly remoteAddress: string };

export interface AccessTokens extends IssuersInForce {
  /**
   * Derives the caller from the credentials of a call, from headers and peer alone.
   * @param signal the call's deadline, which also ends the wait for the issuer's keys
   * @throws ServiceError `missing_token`, `invalid_token`, `expired_token`, `proof_of_possession_failed` (each with a
   *   challenge), `issuer_unavailable`, `store_unavailable`
   */
  authenticate(inbound: InboundRequest, signal: AbortSignal): Promise<Caller>;
  /** Checks an open stream's credentials again, which may have been revoked. DPoP proofs are not checked again. */
  authenticateStill(inbound: InboundRequest, signal: AbortSignal): Promise<Caller>;
  /**
   * Verifies an access token that an authenticated caller received from its holder. Does NOT check possession of a
   * bound key, which is the caller's duty.
   * @throws ServiceError `invalid_token`, `expired_token`, `issuer_unavailable`
   */
  holderOf(token: string, signal: AbortSignal): Promise<Caller>;
}

/** What a call must show of the key that its token is bound to. */
type Shown = Pick<PossessionMethod, "beforeSignature" | "confirm">;

export function createAccessTokens(options: TokenOptions, dependencies: TokenDependencies): AccessTokens {
  const { clock, onEvent } = dependencies;
  const signatures = createFairSemaphore(signatureLimits);
  const possession = possessionMethod(options.proofOfPossession, {
    clock,
    onCertificateIgnored: (remoteAddress) => onEvent({ type: "forwarded_certificate_ignored", remoteAddress }),
    signatures,
  });
  const { verify, ...issuers } = openIssuers(options, signatures, dependencies);

  /** The proof of an open stream was good when it began, and is too old if its token is verified again. */
  const still: Shown = {
    beforeSignature() {},
    confirm: (_token, verified, inbound) => possession.confirmStill(verified, inbound),
  };

  async function callerBy(shown: Shown, inbound: InboundRequest, signal: AbortSignal): Promise<Caller> {
    try {
      const token = readAccessToken(inbound, possession.scheme, maximumTokenBytes);
      const mayVerify = async (claimed: VerifiedToken | "unknown") => shown.beforeSignature(token, claimed, inbound);
      const verified = await verify(token, { signal, mayVerify });
      await shown.confirm(token, verified, inbound, signal);
      noteExpiry(verified.caller, verified.expiresAtMs + clockToleranceSeconds * 1000);
      return verified.caller;
    } catch (thrown) {
      throw possession.asThrown(thrown);
    }
  }

  return {
    ...issuers,
    authenticate: (inbound, signal) => callerBy(possession, inbound, signal),
    authenticateStill: (inbound, signal) => callerBy(still, inbound, signal),
    async holderOf(token, signal) {
      if (token.length > maximumTokenBytes) throw refusedToken("invalid_token", "the access token is too long");
      const { caller, binding } = await verify(token, { signal, mayVerify: async () => {} });
      if (binding === "unclear") throw refusedToken("invalid_token", "the access token is not valid", "token cnf");
      return caller;
    },
  };
}

interface NamedStatus extends IssuerStatus {
  readonly issuer: string;
}

export interface IssuersInForce {
  /** Whether tokens of any issuer can be verified now. */
  status(): IssuerStatus;
  /** The issuer that is responsible for the tenant, and whether its keys are there; undefined if there is none. */
  issuerOf(tenantId: TenantId): { readonly entry: IssuerEntry; readonly issuerReady: boolean } | undefined;
  /** Token endpoint of an issuer; undefined while it is unknown. */
  tokenEndpointOf(issuer: string): string | undefined;
  /** Starts to fetch the issuers' keys in the background and retries until they are there. Call once. */
  start(): void;
  /** Replaces the issuers. Caches of unchanged issuers stay; keys stay while the issuer does. */
  replaceIssuers(issuers: readonly IssuerEntry[]): void;
  /** Stops background work. Idempotent. */
  close(): void;
}

interface TokenIssuers extends IssuersInForce {
  /** Verifies a token with its issuer's source. If the issuer is replaced meanwhile, the new one decides. */
  readonly verify: RequireVerified;
}

interface Issuer {
  readonly entry: IssuerEntry;
  /** Verifies its tokens completely, `iss` included. */
  readonly verify: RequireVerified;
  /** Undefined if its tokens are introspected. */
  readonly keys: IssuerKeys | undefined;
  readonly status: () => IssuerStatus;
}

/** Each issuer, the service included, has separate keys and claims: no token of one is valid as another's. */
function openIssuers(
  { issuers, session, attributes = noDeclaredAttributes, authoritiesFile }: TokenOptions,
  signatures: FairSemaphore,
  given: TokenDependencies,
): TokenIssuers {
  const authorities = authoritiesFile === undefined ? undefined : () => given.readFile(authoritiesFile);
  const dependencies = { ...given, fetch: createIssuerFetch(given.fetch, authorities) };
  const { clock, onEvent } = dependencies;
  const closing = new AbortController();
  const own = session && openOwn(session);
  let current: ReadonlyMap<string, Issuer> = new Map();
  let only: RequireVerified | undefined;
  let asked: readonly Issuer[] = [];
  let isStarted = false;

  /** @param sharers number of issuers that share the memory for caches */
  function remember(verify: Verify, keyRevision: () => number | undefined, sharers = 1): RequireVerified {
    const attributeRevision = () => attributes.revision;
    return cacheVerifications(verify, { clock, keyRevision, attributeRevision, issuers: sharers });
  }

  function byKeys(rules: VerifierRules, findKeys: FindKeys): Verify {
    return (token, context) => verifyToken(token, rules, findKeys, clock, context);
  }

  function openOwn({ issuer, audience, keys }: SessionTokenRule): RequireVerified {
    const entry = { issuer, audience, requireAtJwt: true, claims: sessionClaimNames, tenants: everyTenant };
    const readAttributes = claimedAttributes(attributes, (_, name) => [sessionAttributesClaim, name]);
    const rules = { ...entry, readAttributes, signatures, onOverreach: () => {} };
    const verify = byKeys({ ...rules, authSource: "session_token" }, sessionKeyFinder(keys));
    return remember(verify, () => keys.revision);
  }

  /** @param known keys of the same issuer, which are kept */
  function openIssuer(entry: IssuerEntry, known: IssuerKeys | undefined, sharers: number): Issuer {
    const { issuer, introspection } = entry;
    const rules: VerifierRules = {
      ...entry,
      readAttributes: claimedAttributes(attributes),
      authSource: "bearer_token",
      signatures,
      onOverreach: (tenantId) => onEvent({ type: "issuer_overreached", issuer, tenantId }),
    };
    if (introspection !== undefined) {
      const { verify, status } = createIntrospection(introspection, rules, {
        ...dependencies,
        signal: closing.signal,
        onAnswered: (result) => onEvent({ type: "introspected", issuer, result }),
      });
      return { entry, keys: undefined, verify: remember(verify, () => 0, sharers), status };
    }
    const keys =
      known ??
      createIssuerKeys(issuer, {
        ...dependencies,
        onFetched: (status) => onEvent({ type: "issuer_keys_fetched", issuer, ...status }),
      });
    return { entry, keys, verify: remember(byKeys(rules, keys.find), keys.revision, sharers), status: keys.status };
  }

  function replaceIssuers(entries: readonly IssuerEntry[]): void {
    const before = current;
    const next = new Map(
      entries.map((entry): [string, Issuer] => {
        const known = before.get(entry.issuer);
        const isSame = known !== undefined && isDeepStrictEqual(known.entry, entry);
        return [entry.issuer, isSame ? known : openIssuer(entry, known?.keys, entries.length)];
      }),
    );
    current = next;
    only = onlyVerifier(next, own);
    asked = [...next.values()].filter(({ keys }) => keys === undefined);
    for (const [issuer, { keys }] of before) if (keys !== next.get(issuer)?.keys) keys?.close();
    if (isStarted) for (const [issuer, { keys }] of next) if (keys !== before.get(issuer)?.keys) keys?.start();
  }

  /**
   * The unverified `iss` only chooses the verifier: none accepts a token that was signed for another issuer. An opaque
   * token goes to the issuer whose token prefix matches, and to no other.
   */
  function verifierOf(token: string): RequireVerified {
    if (only !== undefined) return only;
    const issuer = claimedIssuer(token);
    const isAsked = ({ entry }: Issuer) => token.startsWith(entry.introspection?.tokenPrefix ?? "");
    const named = issuer === undefined ? asked.find(isAsked) : current.get(issuer);
    const verify = issuer !== undefined && issuer === session?.issuer ? own : named?.verify;
    if (verify !== undefined) return verify;
    throw refusedToken("invalid_token", "the access token is not valid", "token iss");
  }

  replaceIssuers(issuers);
  return {
    replaceIssuers,
    async verify(token, context) {
      for (;;) {
        const issuersBefore = current;
        const verify = verifierOf(token);
        const verified = await verify(token, context);
        // An issuer that was removed while its keys were awaited must not authenticate a caller.
        if (current === issuersBefore || verifierOf(token) === verify) return verified;
      }
    },
    issuerOf(tenantId) {
      for (const { entry, status } of current.values())
        if (speaksFor(entry.tenants, tenantId)) return { entry, issuerReady: status().issuerReady };
      return undefined;
    },
    tokenEndpointOf: (issuer) => current.get(issuer)?.keys?.tokenEndpoint(),
    status: () => statusOfAll([...current].map(([issuer, { status }]) => ({ issuer, ...status() }))),
    start() {
      isStarted = true;
      for (const { keys } of current.values()) keys?.start();
    },
    close() {
      closing.abort();
      for (const { keys } of current.values()) keys?.close();
    },
  };
}

/** Most issuers that one detail names. */
const maximumNamed = 8;

/** Status of all issuers: ready if any issuer has its keys. The detail names those without. */
function statusOfAll(statuses: readonly NamedStatus[]): IssuerStatus {
  const [first, ...others] = statuses;
  if (first === undefined) return { issuerReady: false, detail: "no token issuer is configured" };
  if (others.length === 0) {
    const { issuer: _, ...status } = first;
    return status;
  }
  const away = statuses.filter(({ issuerReady, remark }) => !issuerReady || remark !== undefined);
  const named = away.slice(0, maximumNamed).map(({ issuer, detail }) => `${issuer}: ${detail}`);
  const more = away.length - named.length;
  if (away.length === 0) return { issuerReady: true, detail: `the keys of ${statuses.length} issuers` };
  const remark = `${away.length} of ${statuses.length} issuers have problems: ${named.join("; ")}${more > 0 ? `; and ${more} more` : ""}`;
  return { issuerReady: statuses.some(({ issuerReady }) => issuerReady), detail: remark, remark };
}

/** The only verifier, if there is just one; then choosing it needs no parsing. */
function onlyVerifier(
  issuers: ReadonlyMap<string, Issuer>,
  own: RequireVerified | undefined,
): RequireVerified | undefined {
  const [first, ...others] = issuers.values();
  if (first === undefined) return own;
  // An issuer that introspects must not see the tokens of others.
  return others.length === 0 && own === undefined && first.keys !== undefined ? first.verify : undefined;
}

function claimedIssuer(token: string): string | undefined {
  // A token that is not a JWT is refused like one of an unknown issuer.
  const iss: unknown = orUndefined(() => decodeJwt(token))?.iss;
  return typeof iss === "string" ? iss : undefined;
}
