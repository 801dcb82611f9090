import type { Caller } from "../base/caller.ts";
import type { Clock } from "../base/clock.ts";
import type { Timers } from "../base/timers.ts";
import { readBearerToken } from "./bearer.ts";
import type { ClaimNames } from "./claims.ts";
import { confirmPossession, type ProofOfPossessionRule } from "./confirmation.ts";
import type { EdgeRequest } from "./edge.ts";
import { createIssuerKeys, type IssuerStatus } from "./issuer-keys.ts";
import { verifyToken } from "./token-verifier.ts";

const defaultMaximumTokenBytes = 8 * 1024;
const defaultClockToleranceSeconds = 30;
const defaultFetchTimeoutMs = 5_000;

/** What a deployment decides. */
export interface AuthenticatorOptions {
  /** Issuer identifier: https, or http on loopback. */
  readonly issuer: string;
  readonly audience: string;
  readonly claims: ClaimNames;
  readonly proofOfPossession: ProofOfPossessionRule;
  /** Longest access token in bytes. Default 8192: what common HTTP servers take as one header line. */
  readonly maximumTokenBytes?: number;
  /** Seconds by which the issuer's clock may differ from ours. Default 30; 0 to 300 make sense. */
  readonly clockToleranceSeconds?: number;
  /** Milliseconds for one document of the issuer. Default 5000. */
  readonly fetchTimeoutMs?: number;
}

/** What an operator wants to know, for log and metrics. None of it is secret. */
export type AuthenticatorEvent =
  | ({ readonly type: "issuer_keys_fetched" } & IssuerStatus)
  | { readonly type: "forwarded_certificate_ignored"; readonly remoteAddress: string };

/** What the machine provides. */
export interface AuthenticatorDependencies {
  readonly clock: Clock;
  readonly timers: Timers;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly fetch: typeof globalThis.fetch;
  /** Must not throw. */
  readonly onEvent: (event: AuthenticatorEvent) => void;
}

/** Says who is calling. */
export interface Authenticator {
  /**
   * Derives the caller from the credentials of a call; reads headers and peer only.
   * @param signal the call's deadline: ends the wait for the issuer's keys
   * @throws ServiceError `missing_token`, `invalid_token`, `expired_token`, `proof_of_possession_failed` (each with a
   *   challenge), `issuer_unavailable`
   */
  authenticate(edge: EdgeRequest, signal: AbortSignal): Promise<Caller>;
  /** Whether tokens can be verified now; truthful at the moment of the call. */
  status(): IssuerStatus;
  /** Begins to fetch the issuer's keys in the background, and goes on until they are there. Call once. */
  start(): void;
  /** Stops what runs in the background; idempotent. */
  close(): void;
}

/** @throws Error where the issuer identifier is none, or is http off loopback */
export function createAuthenticator(
  options: AuthenticatorOptions,
  dependencies: AuthenticatorDependencies,
): Authenticator {
  const { onEvent, clock } = dependencies;
  const maximumTokenBytes = options.maximumTokenBytes ?? defaultMaximumTokenBytes;
  const rules = { clockToleranceSeconds: defaultClockToleranceSeconds, ...options };
  const keys = createIssuerKeys(options.issuer, {
    ...dependencies,
    timeoutMs: options.fetchTimeoutMs ?? defaultFetchTimeoutMs,
    onFetched: (status) => onEvent({ type: "issuer_keys_fetched", ...status }),
  });
  const onCertificateIgnored = (remoteAddress: string) =>
    onEvent({ type: "forwarded_certificate_ignored", remoteAddress });
  return {
    async authenticate(edge, signal) {
      const token = readBearerToken(edge, maximumTokenBytes);
      const verified = await verifyToken(token, rules, keys, clock, signal);
      confirmPossession(verified.confirmation, edge, options.proofOfPossession, onCertificateIgnored);
      return verified.caller;
    },
    status: keys.status,
    start: keys.start,
    close: keys.close,
  };
}
