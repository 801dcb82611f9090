/** Token issuers whose access tokens are taken, and the tenants that each may speak for. A tenant has one issuer. */
import type { TenantId } from "./ids.ts";

/** Names of the claims that carry the caller's identity: one each, no fallbacks. Top-level members of the token. */
export interface ClaimNames {
  readonly tenant: string;
  readonly principal: string;
  readonly subject: string;
  readonly scope: string;
}

/** Which tenants an issuer may speak for. */
export type TenantRule =
  // One tenant: a token need not name it, and may name no other.
  | { readonly kind: "fixed"; readonly tenantId: TenantId }
  | { readonly kind: "list"; readonly tenantIds: ReadonlySet<TenantId> }
  // All whose id begins so; an empty prefix: all.
  | { readonly kind: "prefix"; readonly prefix: string };

/** How an issuer is asked about tokens (RFC 7662). */
export interface IntrospectionRule {
  /** https, or http on loopback. */
  readonly endpoint: string;
  readonly clientId: string;
  /** What the client is known by at the issuer: paths of files. */
  readonly credentials:
    | { readonly kind: "secret"; readonly file: string }
    | { readonly kind: "certificate"; readonly certificateFile: string; readonly keyFile: string };
  /** How its tokens begin, to know them from other issuers'; empty where no other introspects. */
  readonly tokenPrefix: string;
}

/** What a deployment decides about one issuer. */
export interface IssuerEntry {
  /** Issuer identifier, compared byte for byte with `iss`: https, or http on loopback. */
  readonly issuer: string;
  readonly audience: string;
  /** Whether its tokens must be of the type `at+jwt`. */
  readonly requireAtJwt: boolean;
  readonly claims: ClaimNames;
  readonly tenants: TenantRule;
  /** Where its tokens are no JWTs that are verified here, but asked about; absent where they are. */
  readonly introspection?: IntrospectionRule;
}

/** The rule of an issuer that speaks for every tenant. */
export const everyTenant: TenantRule = { kind: "prefix", prefix: "" };

/** Whether the rule has the tenant. */
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

/** Two introspecting issuers whose tokens cannot be told apart; undefined where all can. */
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

/** Two issuers that may speak for the same tenant. */
export interface Overlap {
  readonly issuers: readonly [string, string];
  /** The tenant, or the beginning of the tenants' ids with an asterisk. */
  readonly tenants: string;
}

/** All issuers that overlap with another; empty where each tenant has one at most. Exact: prefixes can be compared. */
export function overlapsOf(entries: readonly Pick<IssuerEntry, "issuer" | "tenants">[]): readonly Overlap[] {
  // In order, all that begins with a prefix stands right behind it.
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
