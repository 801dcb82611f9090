/** The accepted token issuers, and the tenants of each. A tenant has one issuer. */
import type { TenantId } from "./ids.ts";

/** Names of the claims with the caller's identity: one each, without fallbacks; top-level members of the token. */
export interface ClaimNames {
  readonly tenant: string;
  readonly principal: string;
  readonly subject: string;
  readonly scope: string;
}

export type TenantRule =
  // One tenant: a token may omit it, but must not name another.
  | { readonly kind: "fixed"; readonly tenantId: TenantId }
  | { readonly kind: "list"; readonly tenantIds: ReadonlySet<TenantId> }
  // All tenants with this prefix; all if it is empty.
  | { readonly kind: "prefix"; readonly prefix: string };

/** Token introspection at an issuer (RFC 7662). */
export interface IntrospectionRule {
  /** https, or http on loopback. */
  readonly endpoint: string;
  readonly clientId: string;
  /** Credentials of the client at the issuer: paths of files. */
  readonly credentials:
    | { readonly kind: "secret"; readonly file: string }
    | { readonly kind: "certificate"; readonly certificateFile: string; readonly keyFile: string };
  /** Prefix that distinguishes its tokens from those of other issuers; empty if no other introspects. */
  readonly tokenPrefix: string;
}

export interface IssuerEntry {
  /** Issuer identifier, compared byte for byte with `iss`: https, or http on loopback. */
  readonly issuer: string;
  readonly audience: string;
  /** Whether its tokens must be of the type `at+jwt`. */
  readonly requireAtJwt: boolean;
  readonly claims: ClaimNames;
  readonly tenants: TenantRule;
  /** Introspects its tokens; absent if they are JWTs that are verified here. */
  readonly introspection?: IntrospectionRule;
}

/** The rule of an issuer for all tenants. */
export const everyTenant: TenantRule = { kind: "prefix", prefix: "" };

export function speaksFor(rule: TenantRule, tenantId: TenantId): boolean {
  switch (rule.kind) {
    case "fixed":
      return rule.tenantId === tenantId;
    case "list":
      return rule.tenantIds.has(tenantId);
    case "prefix":
      return tenantId.startsWith(rule.prefix);
  }
}

/** Two introspecting issuers with indistinguishable tokens; undefined if there are none. */
export function indistinctOf(
  entries: readonly Pick<IssuerEntry, "issuer" | "introspection">[],
): readonly [string, string] | undefined {
  const asked = entries.flatMap(({ issuer, introspection }) =>
    introspection === undefined ? [] : [{ issuer, text: introspection.tokenPrefix }],
  );
  for (const one of asked) {
    const other = asked.find((candidate) => candidate !== one && candidate.text.startsWith(one.text));
    if (other !== undefined) return [one.issuer, other.issuer];
  }
  return undefined;
}

interface Claimed {
  readonly issuer: string;
  readonly text: string;
  readonly isPrefix: boolean;
}

/** Two issuers with a common tenant. */
interface Overlap {
  readonly issuers: readonly [string, string];
  /** The tenant, or a prefix followed by an asterisk. */
  readonly tenants: string;
}

/** All overlaps between issuers; empty if each tenant has at most one. Exact, because prefixes can be compared. */
export function overlapsOf(entries: readonly Pick<IssuerEntry, "issuer" | "tenants">[]): readonly Overlap[] {
  // Sorted order puts everything with a prefix right behind it.
  const claimed = entries.flatMap(claimedBy).sort(inOrder);
  const overlaps: Overlap[] = [];
  let spanning: Claimed | undefined;
  for (const [index, here] of claimed.entries()) {
    const before = claimed[index - 1];
    const other = spans(spanning, here) ? spanning : before?.text === here.text ? before : undefined;
    if (other !== undefined) overlaps.push({ issuers: [other.issuer, here.issuer], tenants: textOf(here) });
    else if (here.isPrefix) spanning = here;
  }
  return overlaps;
}

function claimedBy({ issuer, tenants }: Pick<IssuerEntry, "issuer" | "tenants">): readonly Claimed[] {
  switch (tenants.kind) {
    case "fixed":
      return [{ issuer, text: tenants.tenantId, isPrefix: false }];
    case "list":
      return [...tenants.tenantIds].map((text) => ({ issuer, text, isPrefix: false }));
    case "prefix":
      return [{ issuer, text: tenants.prefix, isPrefix: true }];
  }
}

function inOrder(one: Claimed, other: Claimed): number {
  if (one.text !== other.text) return one.text < other.text ? -1 : 1;
  return Number(other.isPrefix) - Number(one.isPrefix);
}

function spans(prefix: Claimed | undefined, { text }: Claimed): prefix is Claimed {
  return prefix !== undefined && text.startsWith(prefix.text);
}

function textOf({ text, isPrefix }: Claimed): string {
  return isPrefix ? `${text}*` : text;
}
