/** Records, as callers hand them over and as logs hold them. */
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

/** A record before it is sequenced: what the caller of `append` supplies. */
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
  /** Path of the JSON route, whichever protocol carried the call. */
  readonly route: string;
  /** The normalized request as it was evaluated; never object bytes. */
  readonly request: JsonObject;
  readonly outcome: JsonObject;
  /** Set for decisions; stands in the leaf too. */
  readonly policyRevision?: string;
  /** Makes retries of the call safe; never part of the record. */
  readonly idempotency?: Idempotency;
}

/** What a call is recognized by when it comes again. */
export interface Idempotency {
  /** Within the tenant: 64 hexadecimal digits that stand for principal, route and the caller's key. */
  readonly scope: string;
  /** `sha256:` and the hexadecimal digest of the canonical payload: another payload under one scope is a conflict. */
  readonly payloadDigest: string;
  /** What is answered besides the receipt. It is kept, sealed like the record, and given back to retries. */
  readonly answer: JsonObject;
}

/** Who caused a record: a caller of the service, or its operator. */
export type RecordCaller = Omit<NewRecord["caller"], "auth_source"> & { readonly auth_source: AuthSource | "operator" };

/** A record as it is stored: canonical JSON (RFC 8785) of exactly these members. */
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
  /** The operator's own words. */
  readonly reason: string;
  /** Name of the operator. */
  readonly operator: string;
}
