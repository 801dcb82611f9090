/** Settings that limit callers' use of the service. */
import { integer, path } from "./parsers.ts";
import { given, optional, type Setting } from "./raw.ts";

export const limits = {
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

/** Limits that are the same in every deployment, in milliseconds. Tests use shorter ones. */
export interface FixedLimits {
  /** Polling interval of the policy directory. */
  readonly policyPollMs: number;
  /** For a request body to arrive. */
  readonly bodyTimeoutMs: number;
  /** For one call, whatever deadline it requests. */
  readonly maxDeadlineMs: number;
  /** For a caller to read an answer, and for a silent peer with an open stream to answer a PING. */
  readonly answerTimeoutMs: number;
  /** Idle time after which a stream of evidence or registrations ends. */
  readonly bulkIdleTimeoutMs: number;
  /**
   * Request bodies in memory at once, in bytes; one tenant has half of it. Default: an eighth of the memory, 32 to 64
   * MiB.
   */
  readonly bodyBudgetBytes?: number;
}

export const fixedLimits: FixedLimits = {
  policyPollMs: 1_000,
  bodyTimeoutMs: 10_000,
  maxDeadlineMs: 30_000,
  answerTimeoutMs: 30_000,
  bulkIdleTimeoutMs: 60_000,
};
