/** What sessions ask of the machine. */
import type { TenantId } from "../base/ids.ts";

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
