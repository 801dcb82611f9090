/** What the suite and a driver say to each other: one JSON object a line each way. README.md explains it. */
import type { JsonObject } from "@bufbuild/protobuf";

/** The eight calls, named as their JSON routes are. */
export const routes = [
  ...(["whoami", "capabilities", "bootstrap", "protection-plan"] as const),
  ...(["policy-resolve", "key-access-plan", "artifact-register", "evidence"] as const),
] as const;
export type Route = (typeof routes)[number];

/** The bulk calls, named as their JSON routes are. */
export const bulkRoutes = [
  ...(["bulk/protection-plans", "bulk/policy-resolutions", "bulk/key-access-plans"] as const),
  ...(["bulk/evidence", "bulk/artifact-registrations"] as const),
] as const;
export type BulkRoute = (typeof bulkRoutes)[number];

/** What a stream carries. */
export type StreamKind = "events" | "registrations";

export interface DriverRequest {
  readonly case: string;
  readonly base_url: string;
  /** Paths of PEM files; none where the service speaks without TLS. */
  readonly tls: { readonly ca?: string; readonly cert?: string; readonly key?: string };
  /** Absent: calls carry no token. */
  readonly token?: TokenRequest;
  /** Whether tokens are bound to a key that the client makes (RFC 9449). */
  readonly dpop: boolean;
  readonly options: DriverOptions;
  readonly steps: readonly Step[];
}

export interface TokenRequest {
  readonly issuer: string;
  readonly client_id: string;
  /** Absent: the client authenticates by its certificate (RFC 8705 §2.1). */
  readonly client_secret?: string;
  readonly scopes: readonly string[];
}

export interface DriverOptions {
  /** Covers all attempts of a call, its token included. */
  readonly deadline_ms: number;
  readonly max_attempts: number;
  readonly initial_backoff_ms: number;
  readonly max_backoff_ms: number;
  readonly receipts: "brief" | "whole";
  /** Verifier keys of logs; any of them will do. */
  readonly log_keys?: readonly string[];
  /** Who the program is, as `whoami` says it, in the words of the JSON route. */
  readonly caller?: {
    readonly tenant_id: string;
    readonly principal_id: string;
    readonly subject: string;
    readonly auth_source: string;
  };
  readonly understood_obligations?: readonly string[];
  /** Parameters that are understood of these obligations; of any other id all are. */
  readonly understood_parameters?: Readonly<Record<string, readonly string[]>>;
  /** How long capabilities and bootstrap are kept. Default: the client's own. */
  readonly cache_ms?: number;
}

export type Step = CallStep | CachedStep | ConcurrentStep | VerifyStep | StreamStep;

export interface CallStep {
  readonly call: Route | BulkRoute;
  /** Canonical protobuf JSON. */
  readonly request?: JsonObject;
  readonly idempotency_key?: string;
  /** Answer `not_permitted` unless the decision permits; of a bulk call, that of the first item whose decision does not. */
  readonly require_allow?: boolean;
  /** To wait before the step. */
  readonly pause_ms?: number;
}

/** Capabilities or bootstrap from what the client keeps. */
export interface CachedStep {
  readonly call: "cached-capabilities" | "cached-bootstrap";
  readonly pause_ms?: number;
}

/** All at once; its answer is `{ "steps": [...] }`, in this order. */
export interface ConcurrentStep {
  readonly call: "concurrent";
  readonly calls: readonly Step[];
  readonly pause_ms?: number;
}

/** No call: a receipt, as protobuf JSON, against a key; its answer is `{ "receipt": "verified" | "refused" }`. */
export interface VerifyStep {
  readonly call: "verify-receipt";
  readonly receipt: JsonObject;
  readonly log_key: string;
  readonly pause_ms?: number;
}

/** Opens a stream that resumes, sends all items without waiting for their results, and closes it. */
export interface StreamStep {
  readonly call?: undefined;
  readonly stream: StreamKind;
  readonly items: readonly StreamItem[];
  /** Default: the client's own, 256 items and 256 KiB. */
  readonly max_unacknowledged_items?: number;
  readonly max_unacknowledged_bytes?: number;
  readonly pause_ms?: number;
}

export interface StreamItem {
  readonly idempotency_key?: string;
  /** Canonical protobuf JSON: of a stream of events. */
  readonly event?: JsonObject;
  /** Of a stream of registrations. */
  readonly registration?: JsonObject;
  /** To wait before the item is sent. */
  readonly pause_ms?: number;
}

export interface DriverAnswer {
  readonly case: string;
  readonly steps: readonly StepAnswer[];
}

export interface StepAnswer {
  readonly answer?: JsonObject;
  readonly receipt?: "verified" | "refused" | "absent";
  readonly error?: DriverError;
  readonly not_permitted?: { readonly reasons: readonly string[]; readonly unknown_obligations: readonly string[] };
  readonly steps?: readonly StepAnswer[];
  /** Of a stream: each item's result as protobuf JSON, in the order of the items; null where it has none. */
  readonly results?: readonly (JsonObject | null)[];
  /** Of a stream that was given up: keys of the items that were taken and not acknowledged, in their order. */
  readonly unacknowledged?: readonly string[];
}

export interface DriverError {
  /** gRPC code in snake_case. */
  readonly code: string;
  /** Reason of the service; empty where it never answered. */
  readonly reason: string;
  readonly request_id?: string;
  readonly missing_scopes?: readonly string[];
  readonly violations?: readonly { readonly field: string }[];
}
