/** What sessions ask of the machine. */
import type { TenantId } from "../base/ids.ts";

/** So many attempts in a window of time, which begins with the first of them. */
export interface AttemptLimit {
  /** Undefined where the counter belongs to no tenant. */
  readonly tenantId: TenantId | undefined;
  /** Names what is counted: 1 to 64 characters, nothing secret. */
  readonly counter: string;
  readonly maximum: number;
  readonly windowMs: number;
}

/** A limit under which no attempt is let through now. */
export interface ReachedLimit {
  readonly counter: string;
  /** Milliseconds until its window ends. */
  readonly waitMs: number;
}

/** Counts attempts, for all replicas together. */
export interface AttemptCounters {
  /**
   * Counts one attempt under each of the limits, or under none where some are reached; atomic.
   * @returns the limits that are reached; empty where the attempt is counted
   * @throws ServiceError `store_unavailable`
   */
  takeAttempt(limits: readonly AttemptLimit[]): Promise<readonly ReachedLimit[]>;
  /**
   * Takes back one attempt under each of the limits, as far as their windows have not ended.
   * @throws ServiceError `store_unavailable`
   */
  giveBackAttempt(limits: readonly AttemptLimit[]): Promise<void>;
}

/** A client as the operator registered it. */
export interface SessionClient {
  readonly tenantId: TenantId;
  readonly clientId: string;
  /** In their order, without duplicates. */
  readonly scopes: readonly string[];
}

/** The registered clients and their secrets. */
export interface SessionClients {
  /**
   * Finds the client whose secret this is; undefined where there is none of that tenant and name, or the secret is another.
   * Takes the same time and memory in each of these cases.
   */
  verify(tenantId: TenantId, clientId: string, secret: string): Promise<SessionClient | undefined>;
}

/** What a token is to say. */
export interface SessionGrant extends SessionClient {
  /** Base64url SHA-256 of the client certificate that the token is bound to; undefined where it is bound to none. */
  readonly certificateThumbprint: string | undefined;
}

export interface SessionToken {
  readonly accessToken: string;
  /** Seconds from now. */
  readonly expiresInSeconds: number;
  readonly subject: string;
}

/** Makes access tokens that the service itself takes. */
export interface SessionTokenSigner {
  sign(grant: SessionGrant): Promise<SessionToken>;
}
