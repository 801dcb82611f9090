/** What the rest of the service asks of the ledger. The contract is in the comments. */
import type { AuthSource } from "../base/caller.ts";
import type { PrincipalId, RecordId, RequestId, TenantId } from "../base/ids.ts";
import type { JsonObject } from "../base/json.ts";

export type RecordKind = "genesis" | "decision" | "registration" | "evidence" | "erasure" | "key_rotation";

/** A record before the ledger gave it a place: what the caller of `append` knows. */
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
}

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
  readonly caller: NewRecord["caller"];
  readonly route: string;
  readonly request: JsonObject;
  /** `sha256:` and the hexadecimal SHA-256 of the canonical bytes of `request`. */
  readonly request_digest: string;
  readonly outcome: JsonObject;
}

/** Where a record ended up. */
export interface Appended {
  readonly recordId: RecordId;
  readonly log: string;
  readonly leafIndex: number;
  readonly recordedAt: string;
}

export interface Ledger {
  /**
   * Appends one record to its tenant's log. Resolves only when the record is durable: after a crash of process or
   * machine at any later moment it is there. Records of one tenant are ordered; those of several are not. Rejects
   * with `ServiceError` `store_unavailable` when the store is down, behind, or its queue for the tenant is full; the
   * record may then still have become durable, and is never acknowledged.
   */
  append(record: NewRecord): Promise<Appended>;

  /**
   * Finds a record of this tenant. Sees everything that was acknowledged before the call. Another tenant's record
   * is `unknown`. Rejects with `store_unavailable` when the store cannot be read.
   */
  find(tenantId: TenantId, recordId: RecordId): Promise<StoredRecord | "unknown" | "erased">;

  /** Keeps everything that a policy revision consists of, so that its decisions can be evaluated again. Idempotent. */
  keepPolicyRevision(revision: string, content: string): Promise<void>;

  /** Resolves when the store can write now; rejects with `store_unavailable` otherwise. */
  check(): Promise<void>;

  /** Finishes what is queued, then releases the store. */
  close(): Promise<void>;
}
