/** The file of token issuers: YAML or JSON, with the claims and tenants of each. */
import { parseTenantId, type TenantId } from "../base/ids.ts";
import { type ClaimNames, type IssuerEntry, indistinctOf, overlapsOf, type TenantRule } from "../base/issuers.ts";
import { isLoopbackHost } from "../base/network.ts";
import { mapOf, membersOf, parseDataFile, problemOf, refuse, textOf } from "./data-file.ts";
import { introspectionOf } from "./introspection-rule.ts";
import { audience, claimName, issuer } from "./parsers.ts";
import type { Config } from "./settings.ts";

/** Maximum number of issuers in one file: each has keys that are fetched in the background, and separate metrics. */
export const maximumIssuers = 256;

/** Settings that are defaults of an issuer's entry, or with which its name must not collide. */
export const issuerDefaultKeys = [
  ...["oidcAudience", "requireAtJwt", "tenantClaim", "principalClaim", "subjectClaim", "scopeClaim"],
  ...["sessionClients", "publicUrl", "serviceName"],
] as const satisfies readonly (keyof Config)[];
export type IssuerDefaults = Pick<Config, (typeof issuerDefaultKeys)[number]>;

/** The claims that the settings name. */
export function claimNamesOf(settings: IssuerDefaults): ClaimNames {
  const { tenantClaim, principalClaim, subjectClaim, scopeClaim } = settings;
  return { tenant: tenantClaim, principal: principalClaim, subject: subjectClaim, scope: scopeClaim };
}

/** `iss` of the service's own session tokens. */
export function sessionIssuerOf({ publicUrl, serviceName }: Pick<Config, "publicUrl" | "serviceName">): string {
  return publicUrl ?? serviceName;
}

/**
 * Parses the file's text: `issuers`, a map from issuer identifier to `tenants` (`fixed`, `list` or `pattern`) and, to
 * override the settings, `audience`, `claims` and `require_at_jwt`; `introspection` if its tokens are not JWTs. Throws
 * an Error with all problems, including issuers that may speak for the same tenant.
 */
export function parseIssuerFile(text: string, defaults: IssuerDefaults): readonly IssuerEntry[] {
  const problems: string[] = [];
  const { issuers: given = {} } = membersOf(parseDataFile(text), "", ["issuers"], problems);
  const named = Object.entries(mapOf(given, "issuers", problems));
  if (named.length === 0) problems.push("issuers: names none");
  if (named.length > maximumIssuers) problems.push(`issuers: has more than ${maximumIssuers}`);
  const entries = named.flatMap(([name, value]) => entryOf(name, value, defaults, problems) ?? []);
  for (const { issuers, tenants } of overlapsOf(entries))
    problems.push(`${issuers.join(" and ")}: both may speak for ${tenants}; a tenant has one issuer`);
  const indistinct = indistinctOf(entries);
  if (indistinct !== undefined) {
    const what = "opaque tokens of both cannot be distinguished: each needs an introspection.token_prefix, neither the";
    problems.push(`${indistinct.join(" and ")}: ${what} beginning of the other`);
  }
  refuse(problems);
  return entries;
}

const entryMembers = ["tenants", "audience", "claims", "require_at_jwt", "introspection"] as const;

function entryOf(name: string, value: unknown, defaults: IssuerDefaults, problems: string[]): IssuerEntry | undefined {
  const path = `issuers.${name}`;
  const problem = nameProblem(name, defaults);
  if (problem !== undefined) problems.push(`${path}: ${problem}`);
  const given = membersOf(value, path, entryMembers, problems);
  const { tenants, audience: aud, claims = {}, require_at_jwt: atJwt, introspection } = given;
  if (introspection !== undefined && atJwt !== undefined)
    problems.push(`${path}.require_at_jwt: is for tokens that are verified here, and not for those of introspection`);
  const asked =
    introspection === undefined ? undefined : introspectionOf(introspection, `${path}.introspection`, problems);
  const rule = tenantsOf(tenants, `${path}.tenants`, problems);
  if (atJwt !== undefined && typeof atJwt !== "boolean") problems.push(`${path}.require_at_jwt: must be true or false`);
  return (
    rule && {
      issuer: name,
      audience: textOf(aud, defaults.oidcAudience, audience, `${path}.audience`, problems),
      requireAtJwt: typeof atJwt === "boolean" ? atJwt : defaults.requireAtJwt,
      claims: claimsOf(claims, claimNamesOf(defaults), `${path}.claims`, problems),
      tenants: rule,
      ...(asked !== undefined && { introspection: asked }),
    }
  );
}

function nameProblem(name: string, defaults: IssuerDefaults): string | undefined {
  const problem = problemOf(() => issuer(name));
  if (problem !== undefined) return problem;
  const url = new URL(name);
  if (url.protocol === "http:" && !isLoopbackHost(url.hostname))
    return "must use https: plain http is accepted on loopback only";
  if (defaults.sessionClients !== undefined && sessionIssuerOf(defaults) === name)
    return "is the name of the service's own session tokens: SVC_PUBLIC_URL must be another";
  return undefined;
}

function claimsOf(value: unknown, defaults: ClaimNames, path: string, problems: string[]): ClaimNames {
  const given = membersOf(value, path, ["tenant", "principal", "subject", "scope"], problems);
  const nameOf = (key: keyof ClaimNames) => textOf(given[key], defaults[key], claimName, `${path}.${key}`, problems);
  return {
    tenant: nameOf("tenant"),
    principal: nameOf("principal"),
    subject: nameOf("subject"),
    scope: nameOf("scope"),
  };
}

/** pattern = *( ALPHA / DIGIT / "." / "_" / ":" / "-" ) "*": a prefix of tenant ids. */
const pattern = /^(|[A-Za-z0-9][A-Za-z0-9._:-]{0,127})\*$/;

function tenantsOf(value: unknown, path: string, problems: string[]): TenantRule | undefined {
  const given = value === undefined ? {} : mapOf(value, path, problems);
  const [kind, ...more] = Object.keys(given);
  if (kind === undefined || more.length > 0 || !["fixed", "list", "pattern"].includes(kind)) {
    problems.push(`${path}: must have exactly one of fixed, list, pattern`);
    return undefined;
  }
  const said = given[kind];
  if (kind === "pattern") {
    const prefix = typeof said === "string" ? pattern.exec(said)?.[1] : undefined;
    if (prefix !== undefined) return { kind: "prefix", prefix };
    problems.push(`${path}.pattern: must be the beginning of tenant ids with an asterisk at its end, and no other`);
    return undefined;
  }
  if (kind === "fixed") {
    const tenantId = tenantIdOf(said);
    if (tenantId !== undefined) return { kind: "fixed", tenantId };
    problems.push(`${path}.fixed: must be a tenant id`);
    return undefined;
  }
  return listOf(said, `${path}.list`, problems);
}

function listOf(value: unknown, path: string, problems: string[]): TenantRule | undefined {
  const items: readonly unknown[] = Array.isArray(value) ? value : [];
  const tenantIds = items.flatMap((item) => tenantIdOf(item) ?? []);
  if (items.length === 0 || tenantIds.length < items.length) {
    problems.push(`${path}: must be a list of tenant ids`);
    return undefined;
  }
  const set = new Set(tenantIds);
  if (set.size < tenantIds.length) problems.push(`${path}: has a tenant twice`);
  return { kind: "list", tenantIds: set };
}

function tenantIdOf(value: unknown): TenantId | undefined {
  return typeof value === "string" ? parseTenantId(value) : undefined;
}
