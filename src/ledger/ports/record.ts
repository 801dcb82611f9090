/** Records, before and after sequencing. */
import type { AuthSource } from "../../base/caller.ts";
import type { PrincipalId, RecordId, RequestId, TenantId } from "../../base/ids.ts";
import type { JsonObject } from "../../base/json.ts";

export type RecordKind =
  | "genesis"
  | "decision"
  | "registration"
  | "evidence"
  | "erasure"
  | "key_rotation"
  | "anchor_adoption"
  | "clock_acceptance"
  | "hold_release";

/** A record before it is sequenced. */
export interface NewRecord {
  readonly kind: "decision" | "registration" | "evidence";
  readonly recordId: RecordId;
  readonly tenantId: TenantId;
  readonly requestId: RequestId;
  readonly caller: {
    readonly principal_id: PrincipalId;
    readonly subject: string;
    readonly auth_source: AuthSource;
  };
  /** Path of the JSON route, for any protocol. */
  readonly route: string;
  /** The normalized request as it was evaluated; never object bytes. */
  readonly request: JsonObject;
  readonly outcome: JsonObject;
  /** Set for decisions; part of the leaf too. */
  readonly policyRevision?: string;
  /** Makes retries of the call safe; not part of the record. */
  readonly idempotency?: Idempotency;
}

/** Identifies retries of a call. */
export interface Idempotency {
  /** Unique within the tenant: 64 hexadecimal digits derived from principal, route and the caller's key. */
  readonly scope: string;
  /**
   * `sha256:` and the hexadecimal digest of the canonical payload: another payload under the same scope is a conflict.
   */
  readonly payloadDigest: string;
  /** The answer without its receipt, sealed like the record and returned to retries. */
  readonly answer: JsonObject;
}

/** The author of a record: a caller of the service, or its operator. */
export type RecordCaller = Omit<NewRecord["caller"], "auth_source"> & { readonly auth_source: AuthSource | "operator" };

/** A stored record: canonical JSON (RFC 8785) of exactly these members. */
export interface StoredRecord {
  readonly kind: RecordKind;
  readonly record_id: RecordId;
  /** Origin of the tenant's log. */
  readonly log: string;
  readonly tenant_id: TenantId;
  /** RFC 3339 with milliseconds, UTC; never goes back within a log. */
  readonly recorded_at: string;
  readonly request_id: RequestId;
  readonly caller: RecordCaller;
  readonly route: string;
  readonly request: JsonObject;
  /** `sha256:` and the hexadecimal SHA-256 of the canonical bytes of `request`. */
  readonly request_digest: string;
  readonly outcome: JsonObject;
}

/** Who erases, and why. Both are recorded, and can never be erased. */
export interface ErasureStatement {
  /** Text of the operator. */
  readonly reason: string;
  /** Name of the operator. */
  readonly operator: string;
}
