/**
 * The data files that settings name, in YAML or JSON. The file of token issuers has each issuer's claims, tenants and
 * introspection. The file of quotas has defaults and quotas of single tenants.
 */
import * as v from "valibot";
import {
  type ClaimNames,
  type IntrospectionRule,
  type IssuerEntry,
  indistinctOf,
  overlapsOf,
  type TenantRule,
} from "../base/issuers.ts";
import {
  largestLimits,
  longestPeriodSeconds,
  type Quota,
  type QuotaName,
  type QuotaTable,
  quotaNames,
  type TenantQuotas,
} from "../base/quotas.ts";
import { anyMap, listed, mapOf, matching, members, readDataFile } from "./schema.ts";
import type { Config } from "./settings.ts";
import { audience, claimName, guardedUrl, href, isGuarded, issuer, path, tenantId, tenantIds } from "./values.ts";

/** Maximum number of issuers in one file: each has keys that are fetched in the background, and separate metrics. */
export const maximumIssuers = 256;

/** Settings that are defaults of an issuer's entry, or with which its name must not collide. */
export const issuerDefaultKeys = [
  ...["oidcAudience", "requireAtJwt", "tenantClaim", "principalClaim", "subjectClaim", "scopeClaim"],
  ...["sessionClients", "publicUrl", "serviceName"],
] as const satisfies readonly (keyof Config)[];
type IssuerDefaults = Pick<Config, (typeof issuerDefaultKeys)[number]>;

/** The claims that the settings name. */
export function claimNamesOf(settings: IssuerDefaults): ClaimNames {
  const { tenantClaim, principalClaim, subjectClaim, scopeClaim } = settings;
  return { tenant: tenantClaim, principal: principalClaim, subject: subjectClaim, scope: scopeClaim };
}

/** `iss` of the service's own session tokens. */
export function sessionIssuerOf({ publicUrl, serviceName }: Pick<Config, "publicUrl" | "serviceName">): string {
  return publicUrl ?? serviceName;
}

/** pattern = *( ALPHA / DIGIT / "." / "_" / ":" / "-" ) "*": a prefix of tenant ids. */
const pattern = v.pipe(
  matching(
    /^(|[A-Za-z0-9][A-Za-z0-9._:-]{0,127})\*$/,
    "the beginning of tenant ids with an asterisk at its end, and no other",
  ),
  v.transform((text) => text.slice(0, -1)),
);
const distinctTenants = v.pipe(
  tenantIds,
  v.transform((ids) => ({ count: ids.length, set: new Set(ids) })),
  v.check(({ count, set }) => set.size === count, "has a tenant twice"),
);
const ruleKinds = ["fixed", "list", "pattern"];
const tenants = v.pipe(
  anyMap,
  v.check(
    (map) => Object.keys(map).length === 1 && ruleKinds.some((kind) => Object.hasOwn(map, kind)),
    `must have exactly one of ${ruleKinds.join(", ")}`,
  ),
  members({
    fixed: v.exactOptional(tenantId),
    list: v.exactOptional(distinctTenants),
    pattern: v.exactOptional(pattern),
  }),
  v.transform(({ fixed, list, pattern: prefix = "" }): TenantRule => {
    if (fixed !== undefined) return { kind: "fixed", tenantId: fixed };
    return list === undefined ? { kind: "prefix", prefix } : { kind: "list", tenantIds: list.set };
  }),
);

/** Introspection of the issuer's tokens (RFC 7662). */
const introspection = v.pipe(
  members({
    endpoint: href,
    // Visible ASCII without the colon that ends a user name (RFC 7617 §2).
    client_id: matching(/^[\x21-\x39\x3b-\x7e]{1,256}$/, "1 to 256 visible ASCII characters without a colon"),
    client_secret_file: v.exactOptional(path),
    client_certificate_file: v.exactOptional(path),
    client_key_file: v.exactOptional(path),
    // token68 (RFC 9110 §11.2).
    token_prefix: v.exactOptional(
      matching(/^[A-Za-z0-9._~+/-]{1,64}$/, "the beginning of an access token, 64 characters at most"),
    ),
  }),
  v.check(
    ({ client_secret_file: secret, client_certificate_file: certificate, client_key_file: key }) =>
      (secret === undefined) === (certificate !== undefined || key !== undefined),
    "must have client_secret_file, or client_certificate_file and client_key_file",
  ),
  v.forward(
    v.check(
      (given) => given.client_key_file === undefined || given.client_certificate_file !== undefined,
      "is required",
    ),
    ["client_certificate_file"],
  ),
  v.forward(
    v.check(
      (given) => given.client_certificate_file === undefined || given.client_key_file !== undefined,
      "is required",
    ),
    ["client_key_file"],
  ),
  v.forward(
    v.check(
      ({ endpoint, client_secret_file: secret }) =>
        endpoint.startsWith("https:") || (secret !== undefined && isGuarded(endpoint)),
      "must use https: plain http is accepted on loopback only, for a client secret",
    ),
    ["endpoint"],
  ),
  v.transform(({ endpoint, client_id: clientId, token_prefix: tokenPrefix = "", ...given }): IntrospectionRule => {
    const {
      client_secret_file: file,
      client_certificate_file: certificateFile = "",
      client_key_file: keyFile = "",
    } = given;
    const credentials =
      file === undefined
        ? ({ kind: "certificate", certificateFile, keyFile } as const)
        : ({ kind: "secret", file } as const);
    return { endpoint, clientId, credentials, tokenPrefix };
  }),
);

/** Paths of the files that a rule of introspection names. */
export function filesOf({ credentials }: IntrospectionRule): readonly string[] {
  return credentials.kind === "secret" ? [credentials.file] : [credentials.certificateFile, credentials.keyFile];
}

/** Schema of the file. The settings fill in what an issuer's entry leaves out. */
function fileSchema(defaults: IssuerDefaults) {
  const names = claimNamesOf(defaults);
  const name = v.pipe(
    issuer,
    v.check(
      (identifier) => defaults.sessionClients === undefined || sessionIssuerOf(defaults) !== identifier,
      "is the name of the service's own session tokens: SVC_PUBLIC_URL must be another",
    ),
  );
  const claims = members({
    tenant: v.optional(claimName, names.tenant),
    principal: v.optional(claimName, names.principal),
    subject: v.optional(claimName, names.subject),
    scope: v.optional(claimName, names.scope),
  });
  const entry = v.pipe(
    members({
      tenants: v.optional(tenants, {}),
      audience: v.optional(audience, defaults.oidcAudience),
      claims: v.optional(claims, {}),
      require_at_jwt: v.exactOptional(v.boolean("must be true or false")),
      introspection: v.exactOptional(introspection),
    }),
    v.forward(
      v.check(
        (given) => given.introspection === undefined || given.require_at_jwt === undefined,
        "is for tokens that are verified here, and not for those of introspection",
      ),
      ["require_at_jwt"],
    ),
    v.transform(({ require_at_jwt: requireAtJwt = defaults.requireAtJwt, ...given }) => ({ ...given, requireAtJwt })),
  );
  const issuers = v.pipe(
    mapOf(name, entry),
    v.check(({ size }) => size > 0, "names none"),
    v.check(({ size }) => size <= maximumIssuers, `has more than ${maximumIssuers}`),
  );
  return members({ issuers: v.optional(issuers, {}) });
}

/**
 * Parses the file's text: `issuers`, a map from issuer identifier to `tenants` (`fixed`, `list` or `pattern`) and, to
 * override the settings, `audience`, `claims` and `require_at_jwt`; `introspection` if its tokens are not JWTs. Throws
 * an Error with all problems, including issuers that may speak for the same tenant.
 */
export function parseIssuerFile(text: string, defaults: IssuerDefaults): readonly IssuerEntry[] {
  const { issuers } = readDataFile(text, fileSchema(defaults));
  const entries = [...issuers].map(([name, entry]): IssuerEntry => ({ issuer: name, ...entry }));
  const problems = overlapsOf(entries).map(
    ({ issuers: both, tenants: shared }) =>
      `${both.join(" and ")}: both may speak for ${shared}; a tenant has one issuer`,
  );
  const indistinct = indistinctOf(entries);
  if (indistinct !== undefined) {
    const what = "opaque tokens of both cannot be distinguished: each needs an introspection.token_prefix, neither the";
    problems.push(`${indistinct.join(" and ")}: ${what} beginning of the other`);
  }
  if (problems.length > 0) throw new Error(listed(problems));
  return entries;
}

/** `limit` and `period_seconds`; null for no quota. */
function quota(name: QuotaName) {
  const entries = { limit: whole(largestLimits[name]), period_seconds: whole(longestPeriodSeconds) };
  const renamed = v.transform((given: { limit: number; period_seconds: number }): Quota => {
    return { limit: given.limit, periodSeconds: given.period_seconds };
  });
  return v.exactOptional(v.nullable(v.pipe(members(entries), renamed)));
}

function whole(largest: number) {
  const isWhole = (value: unknown) => Number.isInteger(value) && (value as number) >= 1 && (value as number) <= largest;
  return v.custom<number>(isWhole, `must be a whole number from 1 to ${largest}`);
}

const quotas = members({
  requests: quota("requests"),
  records: quota("records"),
  artifact_bytes: quota("artifact_bytes"),
});
const file = members({ default: v.optional(quotas, {}), tenants: v.optional(mapOf(tenantId, quotas), {}) });

/**
 * Parses the file's text: `default` and `tenants`, each with quotas by name. A tenant inherits the defaults that it
 * does not override. Throws an Error with all problems.
 */
export function parseQuotaFile(text: string): QuotaTable {
  const { default: given, tenants } = readDataFile(text, file);
  const defaults = quotasOf({}, given);
  return { defaults, tenants: new Map([...tenants].map(([tenant, own]) => [tenant, quotasOf(defaults, own)])) };
}

function quotasOf(defaults: TenantQuotas, own: Readonly<Partial<Record<QuotaName, Quota | null>>>): TenantQuotas {
  const all = { ...defaults, ...own };
  return Object.fromEntries(quotaNames.flatMap((name) => (all[name] ? [[name, all[name]]] : [])));
}

const signIn = members({
  issuer,
  client_id: audience,
  client_secret_file: path,
  url: v.pipe(
    guardedUrl,
    v.check((url) => new URL(url).pathname === "/", "must have no path"),
  ),
  roles_claim: v.optional(claimName, "roles"),
});

/** Parses how people sign in to the console: see `SignInOptions`. Throws an Error with all problems. */
export function parseSignInFile(text: string) {
  const given = readDataFile(text, signIn);
  const { client_id: clientId, client_secret_file: clientSecretFile, roles_claim: rolesClaim } = given;
  return { issuer: given.issuer, clientId, clientSecretFile, url: new URL(given.url).origin, rolesClaim };
}
