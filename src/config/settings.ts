/**
 * Every setting, as data: the reader of the environment, the help and the documentation use this table. A default is
 * the text that an operator would write.
 */
import { artifactProfiles, protectionOperations } from "../base/vocabulary.ts";
import { callerSettings } from "./caller-settings.ts";
import { keyReferences } from "./key-references.ts";
import { limits } from "./limits.ts";
import {
  baseUrl,
  defaultRouteScopes,
  integer,
  listenAddress,
  matching,
  oneOf,
  onOff,
  path,
  routeScopes,
  scope,
  storeLocation,
  thumbprint,
  trustedNetwork,
  type WitnessSetting,
  witnesses,
  wordOf,
} from "./parsers.ts";
import { given, list, nonEmpty, optional, optionalList, type Setting } from "./raw.ts";

const logLevels = ["trace", "debug", "info", "warn", "error", "fatal"] as const;
/** How a trusted ingress forwards the client certificate. */
export const forwardedCertFormats = ["thumbprint", "pem", "der"] as const;
export type ForwardedCertFormat = (typeof forwardedCertFormats)[number];

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

  ...callerSettings,
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
    trustedNetwork,
    "Addresses or CIDR blocks of the ingress whose forwarded headers are trusted",
  ),
  trustedProxyCertificates: optionalList(
    "SVC_TRUSTED_PROXY_CERTIFICATES",
    "the ingress is identified by its address alone",
    thumbprint,
    "TLS client certificates of the ingress, of which it must present one: SHA-256 thumbprints, base64url",
  ),
  forwardedCertFormat: given(
    "SVC_FORWARDED_CERT_FORMAT",
    "thumbprint",
    oneOf(forwardedCertFormats),
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
    nonEmpty(list(wordOf(protectionOperations))),
    "Protection operations that this deployment supports",
  ),
  supportedProfiles: given(
    "SVC_SUPPORTED_PROFILES",
    artifactProfiles.join(","),
    nonEmpty(list(wordOf(artifactProfiles))),
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
  witnesses: {
    name: "SVC_WITNESSES",
    absent: "none",
    absentValue: [],
    parse: witnesses,
    help: "Witnesses that cosign checkpoints: verifier key (name+id+key) to submission URL (C2SP tlog-witness)",
  } satisfies Setting<readonly WitnessSetting[]> as Setting<readonly WitnessSetting[]>,
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
  reflection: given("SVC_REFLECTION", "on", onOff, "Whether gRPC reflection is served"),
  reasons: given("SVC_REASONS", "on", onOff, "Whether decisions name the policies that decided"),
  logLevel: given(
    "SVC_LOG_LEVEL",
    "info",
    oneOf(logLevels),
    `Least severe line that is logged: ${logLevels.join(", ")}`,
  ),

  ...limits,
} as const satisfies Record<string, Setting<unknown>>;

/** The validated settings. A member is undefined if its setting may be absent and is. */
export type Config = {
  readonly [Key in keyof typeof settings]: (typeof settings)[Key] extends Setting<infer T> ? T : never;
};

/** Name of a member of the configuration. */
export type Key = keyof Config;
