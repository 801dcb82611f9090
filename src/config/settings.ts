/**
 * Every setting, as data: the reader of the environment, the help, the documentation and the editors' schema use this
 * table. A default is the text that an operator would write.
 */
import {
  artifactProfiles,
  authModes,
  forwardedCertificateFormats,
  proofsOfPossession,
  protectionOperations,
} from "../base/vocabulary.ts";
import { list, matching, nonEmptyList, oneOf, type Schema } from "./schema.ts";
import {
  attributeHeaders,
  audience,
  baseUrl,
  claimName,
  defaultRouteScopes,
  integer,
  issuer,
  keyReferences,
  listenAddress,
  onOff,
  path,
  routeScopes,
  scope,
  storeLocation,
  thumbprint,
  trustedNetwork,
  witnesses,
} from "./values.ts";

/** One row of the table. */
interface Row<T> {
  /** Purpose, unit and range, for a person. */
  readonly help: string;
  readonly schema: Schema<Exclude<T, undefined>>;
  /** Text of the default; absent if the setting may be absent. */
  readonly default?: string;
  /** Meaning of its absence, for a person. */
  readonly absent?: string;
  /** The value of an absent setting without a default: an empty list, or undefined. */
  readonly absentValue?: T;
}

export interface Setting<T> extends Row<T> {
  /** Name of the environment variable, and key in the file. */
  readonly name: `SVC_${string}`;
}

/** A setting that always has a value. */
function given<T>(byDefault: string, schema: Row<T>["schema"], help: string): Row<T> {
  return { default: byDefault, schema, help };
}

/** A setting that may be absent. */
function optional<T>(absent: string, schema: Schema<Exclude<T, undefined>>, help: string): Row<T | undefined> {
  return { absent, schema, help };
}

/** A list that is empty only if the setting is absent. */
function optionalList<T>(absent: string, schema: Schema<readonly T[]>, help: string): Row<readonly T[]> {
  return { absent, absentValue: [], schema, help };
}

const logLevels = ["trace", "debug", "info", "warn", "error", "fatal"] as const;

const table = {
  SVC_LISTEN: given("127.0.0.1:8080", listenAddress, "host:port of the service; port 0: a free one"),
  SVC_OPS_LISTEN: given(
    "127.0.0.1:9090",
    listenAddress,
    "host:port of the operator listener: health, metrics and, on loopback or over TLS, the logs",
  ),
  SVC_OPS_TLS_CERT: optional(
    "plaintext; off loopback the logs are not served then",
    path,
    "PEM file: certificate chain of the operator listener",
  ),
  SVC_OPS_TLS_KEY: optional("plaintext", path, "PEM file: private key of that certificate"),
  SVC_OPS_CREDENTIALS: optional(
    "off loopback the logs are open to tenants' own tokens only",
    path,
    "File of the operators whose credentials open every log, written by the command `operators`",
  ),
  SVC_CONSOLE_SIGN_IN: optional(
    "the console takes tokens only",
    path,
    "YAML or JSON file: the OpenID Connect issuer by which people sign in to the console, and their roles",
  ),
  SVC_PUBLIC_URL: optional("from the request", baseUrl, "Base URL at which callers reach the service"),
  SVC_SERVICE_NAME: given(
    "svc-platform-api",
    matching(/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/, "1 to 128 letters, digits, dots, hyphens or underscores"),
    "Name in every answer",
  ),
  SVC_HEADER_PREFIX: given(
    "x-svc-",
    matching(/^[a-z][a-z0-9-]{0,62}-$/, "lowercase letters, digits and hyphens, with a hyphen at the end"),
    "Prefix of the service's own request and response headers",
  ),

  SVC_AUTH_MODE: given("bearer_token", oneOf(authModes), `How callers prove who they are: ${authModes.join(", ")}`),
  SVC_PROOF_OF_POSSESSION: given(
    "mtls",
    oneOf(proofsOfPossession),
    `What a token is bound to: ${proofsOfPossession.join(", ")}`,
  ),
  SVC_DPOP_NONCE_KEY: optional(
    "proofs need no nonce",
    path,
    "File with a secret of 32 characters or more, the same for all replicas: DPoP proofs must carry a nonce derived from it",
  ),
  SVC_OIDC_ISSUER: optional(
    "none; this or SVC_OIDC_ISSUERS is needed if access tokens are accepted",
    issuer,
    "Token issuer for every tenant; http on loopback only",
  ),
  SVC_OIDC_ISSUERS: optional(
    "SVC_OIDC_ISSUER alone",
    path,
    "YAML or JSON file of token issuers, in place of SVC_OIDC_ISSUER, with their claims and tenants",
  ),
  SVC_OIDC_CA: optional(
    "those of the system",
    path,
    "PEM file: authorities that issuers' certificates must come from, in place of the system's",
  ),
  SVC_OIDC_AUDIENCE: given("api://svc-platform-api", audience, "Audience that a token must carry"),
  SVC_REQUIRE_AT_JWT: given(
    "off",
    onOff,
    "Whether the issuer's access tokens must have typ at+jwt (RFC 9068); else JWT or none is accepted",
  ),
  SVC_TENANT_CLAIM: given("tenant_id", claimName, "Claim with the tenant id"),
  SVC_PRINCIPAL_CLAIM: given("principal_id", claimName, "Claim with the principal id"),
  SVC_SUBJECT_CLAIM: given("sub", claimName, "Claim with the subject"),
  SVC_SCOPE_CLAIM: given("scope", claimName, "Claim with the scopes"),
  SVC_ATTRIBUTE_HEADERS: given(
    "{}",
    attributeHeaders,
    "Headers in which the ingress sends attributes that the policy manifest declares: a map from attribute to header",
  ),
  SVC_DEFAULT_REQUIRED_SCOPES: given("platform-api.access", list(scope), "Scopes that every route needs"),
  SVC_ROUTE_SCOPES: given(
    JSON.stringify(defaultRouteScopes),
    routeScopes,
    "Further scopes by route; an omitted route keeps its default",
  ),

  SVC_TRUSTED_PROXIES: optionalList(
    "none trusted",
    nonEmptyList(trustedNetwork),
    "Addresses or CIDR blocks of the ingress whose forwarded headers are trusted",
  ),
  SVC_TRUSTED_PROXY_CERTIFICATES: optionalList(
    "the ingress is identified by its address alone",
    nonEmptyList(thumbprint),
    "TLS client certificates of the ingress, of which it must present one: SHA-256 thumbprints, base64url",
  ),
  SVC_FORWARDED_CERT_FORMAT: given(
    "thumbprint",
    oneOf(forwardedCertificateFormats),
    "How the ingress forwards the client certificate: thumbprint (base64url SHA-256), pem (URL-encoded), der (RFC 9440)",
  ),
  SVC_TLS_CERT: optional("plaintext", path, "PEM file: certificate chain of the service"),
  SVC_TLS_KEY: optional("plaintext", path, "PEM file: private key of the certificate"),
  SVC_TLS_CLIENT_CA: optional(
    "no client certificate is asked for",
    path,
    "PEM file: authorities of client certificates",
  ),

  SVC_STORE: given(
    "sqlite:./data/platform.db",
    storeLocation,
    "Where records are kept: sqlite:<path>, postgres://user@host/database?sslmode=verify-full&sslrootcert=…",
  ),
  SVC_STORE_PASSWORD_FILE: optional(
    "the password of the URL, or none",
    path,
    "File of the password for PostgreSQL, read again at each connect",
  ),
  SVC_STORE_POOL_SIZE: given("10", integer(1, 100), "Maximum number of connections to PostgreSQL, 1 to 100"),
  SVC_STORE_TIMEOUT_MS: given(
    "5000",
    integer(100, 60_000),
    "Total time that a record or a lookup may wait in PostgreSQL: for its turn, connection, locks, statements; 100 to 60000 ms",
  ),
  SVC_POLICY_DIR: optional("none; needed to serve", path, "Directory of the policy set"),
  SVC_POLICY_EVALUATOR: given(
    "compiled",
    oneOf(["compiled", "cedar"]),
    "Evaluator of policies: `compiled`, which is compared with Cedar when a set is loaded; or `cedar` alone, which is slower",
  ),
  SVC_KEY_REFERENCES: given(
    '{"kms://*":{"mode":"wrapped_key_reference","origin":"kms"}}',
    keyReferences,
    "Managed key references: pattern to mode, origin and, if restricted, tenants",
  ),
  SVC_SUPPORTED_OPERATIONS: given(
    protectionOperations.join(","),
    nonEmptyList(oneOf(protectionOperations)),
    "Protection operations that this deployment supports",
  ),
  SVC_SUPPORTED_PROFILES: given(
    artifactProfiles.join(","),
    nonEmptyList(oneOf(artifactProfiles)),
    "Artifact profiles that this deployment supports",
  ),

  SVC_LEDGER_KEY: given("./data/ledger.key", path, "File of the key that signs checkpoints"),
  SVC_LEDGER_ORIGIN: optional(
    "none; needed to serve",
    // A log's name is a key name of signed notes: no space, no plus sign (C2SP signed-note).
    matching(
      /^[a-z0-9][a-z0-9.-]*(\/[A-Za-z0-9._~-]+)*$/,
      "a host name and path without scheme, such as logs.example.com/evidence",
    ),
    "Prefix of the names of this deployment's logs: a host name and path of its own, never changed afterwards",
  ),
  SVC_ANCHOR: optional("beside the store", path, "File of the last checkpoint of every log, outside the store"),
  SVC_WITNESSES: optionalList(
    "none",
    witnesses,
    "Witnesses that cosign checkpoints: verifier key (name+id+key) to submission URL (C2SP tlog-witness)",
  ),
  SVC_WITNESS_QUORUM: optional(
    "answers do not wait for witnesses if there is an anchor file",
    integer(1, 16),
    "Number of witnesses that must cosign before an answer is sent, more than half of them",
  ),

  SVC_SESSION_CLIENTS: optional("no session route", path, "JSON file of the session route's clients"),
  SVC_SESSION_KEY: optional(
    "no session route",
    path,
    "PEM file: keys of session tokens, P-256 or Ed25519; the first signs, all of them verify",
  ),

  SVC_EXPLORER: given(
    "on",
    onOff,
    "Whether the interactive explorer and the OpenAPI document that drives it are served",
  ),
  SVC_BULK: given("off", onOff, "Whether `platform.bulk.v1` is served, under `/v1/bulk/`"),
  SVC_AUTHZEN: given(
    "off",
    onOff,
    "Whether the AuthZEN 1.0 API is served, under `/access/v1/`; its metadata is published if `SVC_PUBLIC_URL` is set",
  ),
  SVC_OPENTDF: given(
    "off",
    onOff,
    "Whether OpenTDF's `authorization.v2` is served, for a key access service (KAS) in front",
  ),
  SVC_REFLECTION: given("on", onOff, "Whether gRPC reflection is served"),
  SVC_REASONS: given("on", onOff, "Whether decisions name the policies that decided"),
  SVC_LOG_LEVEL: given("info", oneOf(logLevels), `Least severe line that is logged: ${logLevels.join(", ")}`),

  SVC_MAX_BODY_BYTES: given("262144", integer(1024, 262_144), "Largest request body, 1024 to 262144 bytes"),
  SVC_MAX_ARTIFACT_BODY_BYTES: given(
    "12582912",
    integer(1024, 12_582_912),
    "Largest request body of artifact-register, 1024 to 12582912 bytes",
  ),
  SVC_MAX_BULK_BODY_BYTES: given(
    "1048576",
    integer(1024, 8_388_608),
    "Largest request body of a bulk call, and largest part of it that is in memory at once, 1024 to 8388608 bytes; each item also has the limit of its single route. It is also the limit of all questions in one call of an enforcement point, unless SVC_MAX_BODY_BYTES is larger",
  ),
  SVC_QUOTAS: optional(
    "none",
    path,
    "File (YAML or JSON) of tenants' quotas in a period: requests, records, bytes of artifacts; reloaded when it changes",
  ),
  SVC_MAX_CONNECTIONS: given(
    "4096",
    integer(16, 1_000_000),
    "Connections that may be open at once, 16 to 1000000; one address has half of them at most, except loopback and SVC_TRUSTED_PROXIES",
  ),
  SVC_SHUTDOWN_GRACE_MS: given(
    "10000",
    integer(0, 600_000),
    "Time for calls in flight to finish after a stop signal, 0 to 600000 ms",
  ),
  SVC_DECISION_MAX_AGE_SECONDS: given(
    "86400",
    integer(1, 31_536_000),
    "Age up to which a decision may be cited, 1 to 31536000 s",
  ),
} as const satisfies Readonly<Record<`SVC_${string}`, Row<unknown>>>;

type Camel<Words extends string> = Words extends `${infer First}_${infer Rest}`
  ? `${Lowercase<First>}${Capitalize<Camel<Rest>>}`
  : Lowercase<Words>;
type KeyOf<Name> = Name extends `SVC_${infer Words}` ? Camel<Words> : never;

/** The validated settings, by their names in camel case. A member is undefined if its setting may be absent and is. */
export type Config = {
  readonly [Name in keyof typeof table as KeyOf<Name>]: (typeof table)[Name] extends Row<infer T> ? T : never;
};

/** Name of a member of the configuration. */
export type Key = keyof Config;

/** The table by members of the configuration: `tlsCert` for `SVC_TLS_CERT`. */
export const settings = Object.fromEntries(
  Object.entries(table).map(([name, row]) => [
    name
      .slice("SVC_".length)
      .toLowerCase()
      .replace(/_(.)/g, (_, letter: string) => letter.toUpperCase()),
    { name, ...row },
  ]),
) as unknown as {
  readonly [Name in keyof typeof table as KeyOf<Name>]: (typeof table)[Name] & { readonly name: Name };
};

// Limits that no setting changes.

/** Limits that are the same in every deployment, in milliseconds. Tests use shorter ones. */
export const fixedLimits = {
  /** Polling interval of the policy directory. */
  policyPollMs: 1_000,
  /** Time for a request body to arrive. */
  bodyTimeoutMs: 10_000,
  /** Longest duration of one call, even if it requests a longer deadline. */
  maxDeadlineMs: 30_000,
  /** Time for a caller to read an answer, and for a silent peer with an open stream to answer a PING. */
  answerTimeoutMs: 30_000,
  /** Idle time after which a stream of evidence or registrations ends. */
  bulkIdleTimeoutMs: 60_000,
};

export type FixedLimits = Readonly<typeof fixedLimits> & {
  /**
   * Request bodies in memory at once, in bytes; one tenant has half of it. Default: an eighth of the memory, 32 to 64
   * MiB.
   */
  readonly bodyBudgetBytes?: number;
};
