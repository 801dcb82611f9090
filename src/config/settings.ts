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
export interface Setting<T> {
  /** Name of the environment variable, and key in the file. */
  readonly name: `SVC_${string}`;
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

/** A setting that always has a value. */
function given<T>(name: Setting<T>["name"], byDefault: string, schema: Setting<T>["schema"], help: string): Setting<T> {
  return { name, default: byDefault, schema, help };
}

/** A setting that may be absent. */
function optional<T>(
  name: Setting<T>["name"],
  absent: string,
  schema: Schema<Exclude<T, undefined>>,
  help: string,
): Setting<T | undefined> {
  return { name, absent, schema, help };
}

/** A list that is empty only if the setting is absent. */
function optionalList<T>(
  name: Setting<T>["name"],
  absent: string,
  schema: Schema<readonly T[]>,
  help: string,
): Setting<readonly T[]> {
  return { name, absent, absentValue: [], schema, help };
}

const logLevels = ["trace", "debug", "info", "warn", "error", "fatal"] as const;

export const settings = {
  listen: given("SVC_LISTEN", "127.0.0.1:8080", listenAddress, "host:port of the service; port 0: a free one"),
  opsListen: given(
    "SVC_OPS_LISTEN",
    "127.0.0.1:9090",
    listenAddress,
    "host:port of the operator listener: health, metrics and, on loopback or over TLS, the logs",
  ),
  opsTlsCert: optional(
    "SVC_OPS_TLS_CERT",
    "plaintext; off loopback the logs are not served then",
    path,
    "PEM file: certificate chain of the operator listener",
  ),
  opsTlsKey: optional("SVC_OPS_TLS_KEY", "plaintext", path, "PEM file: private key of that certificate"),
  opsCredentials: optional(
    "SVC_OPS_CREDENTIALS",
    "off loopback the logs are open to tenants' own tokens only",
    path,
    "File of the operators whose credentials open every log, written by the command `operators`",
  ),
  consoleSignIn: optional(
    "SVC_CONSOLE_SIGN_IN",
    "the console takes tokens only",
    path,
    "YAML or JSON file: the OpenID Connect issuer by which people sign in to the console, and their roles",
  ),
  publicUrl: optional("SVC_PUBLIC_URL", "from the request", baseUrl, "Base URL at which callers reach the service"),
  serviceName: given(
    "SVC_SERVICE_NAME",
    "svc-platform-api",
    matching(/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/, "1 to 128 letters, digits, dots, hyphens or underscores"),
    "Name in every answer",
  ),
  headerPrefix: given(
    "SVC_HEADER_PREFIX",
    "x-svc-",
    matching(/^[a-z][a-z0-9-]{0,62}-$/, "lowercase letters, digits and hyphens, with a hyphen at the end"),
    "Prefix of the service's own request and response headers",
  ),

  authMode: given(
    "SVC_AUTH_MODE",
    "bearer_token",
    oneOf(authModes),
    `How callers prove who they are: ${authModes.join(", ")}`,
  ),
  proofOfPossession: given(
    "SVC_PROOF_OF_POSSESSION",
    "mtls",
    oneOf(proofsOfPossession),
    `What a token is bound to: ${proofsOfPossession.join(", ")}`,
  ),
  dpopNonceKey: optional(
    "SVC_DPOP_NONCE_KEY",
    "proofs need no nonce",
    path,
    "File with a secret of 32 characters or more, the same for all replicas: DPoP proofs must carry a nonce derived from it",
  ),
  oidcIssuer: optional(
    "SVC_OIDC_ISSUER",
    "none; this or SVC_OIDC_ISSUERS is needed if access tokens are accepted",
    issuer,
    "Token issuer for every tenant; http on loopback only",
  ),
  oidcIssuers: optional(
    "SVC_OIDC_ISSUERS",
    "SVC_OIDC_ISSUER alone",
    path,
    "YAML or JSON file of token issuers, in place of SVC_OIDC_ISSUER, with their claims and tenants",
  ),
  oidcCa: optional(
    "SVC_OIDC_CA",
    "those of the system",
    path,
    "PEM file: authorities that issuers' certificates must come from, in place of the system's",
  ),
  oidcAudience: given("SVC_OIDC_AUDIENCE", "api://svc-platform-api", audience, "Audience that a token must carry"),
  requireAtJwt: given(
    "SVC_REQUIRE_AT_JWT",
    "off",
    onOff,
    "Whether the issuer's access tokens must have typ at+jwt (RFC 9068); else JWT or none is accepted",
  ),
  tenantClaim: given("SVC_TENANT_CLAIM", "tenant_id", claimName, "Claim with the tenant id"),
  principalClaim: given("SVC_PRINCIPAL_CLAIM", "principal_id", claimName, "Claim with the principal id"),
  subjectClaim: given("SVC_SUBJECT_CLAIM", "sub", claimName, "Claim with the subject"),
  scopeClaim: given("SVC_SCOPE_CLAIM", "scope", claimName, "Claim with the scopes"),
  attributeHeaders: given(
    "SVC_ATTRIBUTE_HEADERS",
    "{}",
    attributeHeaders,
    "Headers in which the ingress sends attributes that the policy manifest declares: a map from attribute to header",
  ),
  defaultRequiredScopes: given(
    "SVC_DEFAULT_REQUIRED_SCOPES",
    "platform-api.access",
    list(scope),
    "Scopes that every route needs",
  ),
  routeScopes: given(
    "SVC_ROUTE_SCOPES",
    JSON.stringify(defaultRouteScopes),
    routeScopes,
    "Further scopes by route; an omitted route keeps its default",
  ),

  trustedProxies: optionalList(
    "SVC_TRUSTED_PROXIES",
    "none trusted",
    nonEmptyList(trustedNetwork),
    "Addresses or CIDR blocks of the ingress whose forwarded headers are trusted",
  ),
  trustedProxyCertificates: optionalList(
    "SVC_TRUSTED_PROXY_CERTIFICATES",
    "the ingress is identified by its address alone",
    nonEmptyList(thumbprint),
    "TLS client certificates of the ingress, of which it must present one: SHA-256 thumbprints, base64url",
  ),
  forwardedCertFormat: given(
    "SVC_FORWARDED_CERT_FORMAT",
    "thumbprint",
    oneOf(forwardedCertificateFormats),
    "How the ingress forwards the client certificate: thumbprint (base64url SHA-256), pem (URL-encoded), der (RFC 9440)",
  ),
  tlsCert: optional("SVC_TLS_CERT", "plaintext", path, "PEM file: certificate chain of the service"),
  tlsKey: optional("SVC_TLS_KEY", "plaintext", path, "PEM file: private key of the certificate"),
  tlsClientCa: optional(
    "SVC_TLS_CLIENT_CA",
    "no client certificate is asked for",
    path,
    "PEM file: authorities of client certificates",
  ),

  store: given(
    "SVC_STORE",
    "sqlite:./data/platform.db",
    storeLocation,
    "Where records are kept: sqlite:<path>, postgres://user@host/database?sslmode=verify-full&sslrootcert=…",
  ),
  storePasswordFile: optional(
    "SVC_STORE_PASSWORD_FILE",
    "the password of the URL, or none",
    path,
    "File of the password for PostgreSQL, read again at each connect",
  ),
  storePoolSize: given(
    "SVC_STORE_POOL_SIZE",
    "10",
    integer(1, 100),
    "Maximum number of connections to PostgreSQL, 1 to 100",
  ),
  storeTimeoutMs: given(
    "SVC_STORE_TIMEOUT_MS",
    "5000",
    integer(100, 60_000),
    "Total time that a record or a lookup may wait in PostgreSQL: for its turn, connection, locks, statements; 100 to 60000 ms",
  ),
  policyDir: optional("SVC_POLICY_DIR", "none; needed to serve", path, "Directory of the policy set"),
  policyEvaluator: given(
    "SVC_POLICY_EVALUATOR",
    "compiled",
    oneOf(["compiled", "cedar"]),
    "Evaluator of policies: `compiled`, which is compared with Cedar when a set is loaded; or `cedar` alone, which is slower",
  ),
  keyReferences: given(
    "SVC_KEY_REFERENCES",
    '{"kms://*":{"mode":"wrapped_key_reference","origin":"kms"}}',
    keyReferences,
    "Managed key references: pattern to mode, origin and, if restricted, tenants",
  ),
  supportedOperations: given(
    "SVC_SUPPORTED_OPERATIONS",
    protectionOperations.join(","),
    nonEmptyList(oneOf(protectionOperations)),
    "Protection operations that this deployment supports",
  ),
  supportedProfiles: given(
    "SVC_SUPPORTED_PROFILES",
    artifactProfiles.join(","),
    nonEmptyList(oneOf(artifactProfiles)),
    "Artifact profiles that this deployment supports",
  ),

  ledgerKey: given("SVC_LEDGER_KEY", "./data/ledger.key", path, "File of the key that signs checkpoints"),
  ledgerOrigin: optional(
    "SVC_LEDGER_ORIGIN",
    "none; needed to serve",
    // A log's name is a key name of signed notes: no space, no plus sign (C2SP signed-note).
    matching(
      /^[a-z0-9][a-z0-9.-]*(\/[A-Za-z0-9._~-]+)*$/,
      "a host name and path without scheme, such as logs.example.com/evidence",
    ),
    "Prefix of the names of this deployment's logs: a host name and path of its own, never changed afterwards",
  ),
  anchor: optional(
    "SVC_ANCHOR",
    "beside the store",
    path,
    "File of the last checkpoint of every log, outside the store",
  ),
  witnesses: optionalList(
    "SVC_WITNESSES",
    "none",
    witnesses,
    "Witnesses that cosign checkpoints: verifier key (name+id+key) to submission URL (C2SP tlog-witness)",
  ),
  witnessQuorum: optional(
    "SVC_WITNESS_QUORUM",
    "answers do not wait for witnesses if there is an anchor file",
    integer(1, 16),
    "Number of witnesses that must cosign before an answer is sent, more than half of them",
  ),

  sessionClients: optional("SVC_SESSION_CLIENTS", "no session route", path, "JSON file of the session route's clients"),
  sessionKey: optional(
    "SVC_SESSION_KEY",
    "no session route",
    path,
    "PEM file: keys of session tokens, P-256 or Ed25519; the first signs, all of them verify",
  ),

  explorer: given(
    "SVC_EXPLORER",
    "on",
    onOff,
    "Whether the interactive explorer and the OpenAPI document that drives it are served",
  ),
  bulk: given("SVC_BULK", "off", onOff, "Whether `platform.bulk.v1` is served, under `/v1/bulk/`"),
  authzen: given(
    "SVC_AUTHZEN",
    "off",
    onOff,
    "Whether the AuthZEN 1.0 API is served, under `/access/v1/`; its metadata is published if `SVC_PUBLIC_URL` is set",
  ),
  opentdf: given(
    "SVC_OPENTDF",
    "off",
    onOff,
    "Whether OpenTDF's `authorization.v2` is served, for a key access service (KAS) in front",
  ),
  reflection: given("SVC_REFLECTION", "on", onOff, "Whether gRPC reflection is served"),
  reasons: given("SVC_REASONS", "on", onOff, "Whether decisions name the policies that decided"),
  logLevel: given(
    "SVC_LOG_LEVEL",
    "info",
    oneOf(logLevels),
    `Least severe line that is logged: ${logLevels.join(", ")}`,
  ),

  maxBodyBytes: given(
    "SVC_MAX_BODY_BYTES",
    "262144",
    integer(1024, 262_144),
    "Largest request body, 1024 to 262144 bytes",
  ),
  maxArtifactBodyBytes: given(
    "SVC_MAX_ARTIFACT_BODY_BYTES",
    "12582912",
    integer(1024, 12_582_912),
    "Largest request body of artifact-register, 1024 to 12582912 bytes",
  ),
  maxBulkBodyBytes: given(
    "SVC_MAX_BULK_BODY_BYTES",
    "1048576",
    integer(1024, 8_388_608),
    "Largest request body of a bulk call, and largest part of it that is in memory at once, 1024 to 8388608 bytes; each item also has the limit of its single route. It is also the limit of all questions in one call of an enforcement point, unless SVC_MAX_BODY_BYTES is larger",
  ),
  quotas: optional(
    "SVC_QUOTAS",
    "none",
    path,
    "File (YAML or JSON) of tenants' quotas in a period: requests, records, bytes of artifacts; reloaded when it changes",
  ),
  maxConnections: given(
    "SVC_MAX_CONNECTIONS",
    "4096",
    integer(16, 1_000_000),
    "Connections that may be open at once, 16 to 1000000; one address has half of them at most, except loopback and SVC_TRUSTED_PROXIES",
  ),
  shutdownGraceMs: given(
    "SVC_SHUTDOWN_GRACE_MS",
    "10000",
    integer(0, 600_000),
    "Time for calls in flight to finish after a stop signal, 0 to 600000 ms",
  ),
  decisionMaxAgeSeconds: given(
    "SVC_DECISION_MAX_AGE_SECONDS",
    "86400",
    integer(1, 31_536_000),
    "Age up to which a decision may be cited, 1 to 31536000 s",
  ),
} as const satisfies Record<string, Setting<unknown>>;

/** The validated settings. A member is undefined if its setting may be absent and is. */
export type Config = {
  readonly [Key in keyof typeof settings]: (typeof settings)[Key] extends Setting<infer T> ? T : never;
};

/** Name of a member of the configuration. */
export type Key = keyof Config;

// Limits that no setting changes.

/** Limits that are the same in every deployment, in milliseconds. Tests use shorter ones. */
export const fixedLimits = {
  /** Polling interval of the policy directory. */
  policyPollMs: 1_000,
  /** For a request body to arrive. */
  bodyTimeoutMs: 10_000,
  /** For one call, whatever deadline it requests. */
  maxDeadlineMs: 30_000,
  /** For a caller to read an answer, and for a silent peer with an open stream to answer a PING. */
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
