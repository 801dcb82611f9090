import type { AttributeDeclarations, AttributeValues } from "./caller-attributes.ts";
import type { PrincipalId, TenantId } from "./ids.ts";

export const authSources = ["bearer_token", "trusted_headers", "session_token"] as const;
/** Where an identity comes from. */
export type AuthSource = (typeof authSources)[number];

const expiries = new WeakMap<Caller, number>();

/** Notes when the credentials of a caller expire, in milliseconds since the Unix epoch. */
export function noteExpiry(caller: Caller, expiresAtMs: number): void {
  expiries.set(caller, expiresAtMs);
}

/** When the credentials of a caller expire; infinite where they do not. */
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
  /** Scopes carried by the credentials, in their order, without duplicates. */
  readonly scopes: readonly string[];
  /** Attributes that the operator declares; absent where none are declared. */
  readonly attributes?: AttributeValues;
  /** The declarations by which they were read; absent like them. */
  readonly declaredAttributes?: AttributeDeclarations;
}
