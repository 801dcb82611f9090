import type { AttributeDeclarations, AttributeValues } from "./caller-attributes.ts";
import type { PrincipalId, TenantId } from "./ids.ts";

export const authSources = ["bearer_token", "trusted_headers", "session_token"] as const;
export type AuthSource = (typeof authSources)[number];

const expiries = new WeakMap<Caller, number>();

/** Records when the credentials of a caller expire, in milliseconds since the Unix epoch. */
export function noteExpiry(caller: Caller, expiresAtMs: number): void {
  expiries.set(caller, expiresAtMs);
}

/** Returns when the credentials of a caller expire; infinity if never. */
export function expiryOf(caller: Caller): number {
  return expiries.get(caller) ?? Number.POSITIVE_INFINITY;
}

/** The authenticated caller. Every member comes from its credentials, none from a request body. */
export interface Caller {
  readonly tenantId: TenantId;
  readonly principalId: PrincipalId;
  /** Subject of the credentials: 1 to 256 characters. */
  readonly subject: string;
  readonly authSource: AuthSource;
  /** Scopes of the credentials, in order, without duplicates. */
  readonly scopes: readonly string[];
  /** Declared attributes; absent if none are declared. */
  readonly attributes?: AttributeValues;
  /** The declarations behind `attributes`; absent with them. */
  readonly declaredAttributes?: AttributeDeclarations;
}
