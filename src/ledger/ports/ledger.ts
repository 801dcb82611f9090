/** What the rest of the service asks of the ledger. The contract is in the comments. */
import type { AuthSource } from "../../base/caller.ts";
import type { PrincipalId, RecordId, RequestId, TenantId } from "../../base/ids.ts";
import type { JsonObject } from "../../base/json.ts";
import type { SearchPage, SearchQuery } from "../search/search.ts";
import type { LogName } from "../tlog/log-name.ts";

export type RecordKind =
  | "genesis"
  | "decision"
  | "registration"
  | "evidence"
  | "erasure"
  | "key_rotation"
  | "anchor_adoption"
  | "hold_release";

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

/** Where a record ended up. */
export interface Appended {
  readonly recordId: RecordId;
  readonly log: string;
  readonly leafIndex: number;
  readonly recordedAt: string;
  readonly receipt: Receipt;
  /** Set where nothing was appended, because the call was a retry: what was answered to the first. */
  readonly keptAnswer?: JsonObject;
}

/** With it anyone can check offline that the log holds exactly this record. */
export interface Receipt {
  readonly recordId: RecordId;
  readonly logOrigin: string;
  readonly leafIndex: number;
  readonly treeSize: number;
  /** RFC 6962 hash of the leaf. Base64, like the three last. */
  readonly leafHash: string;
  /** C2SP tlog-proof v1. */
  readonly proof: string;
  /** Exact bytes of leaf, opening and record. */
  readonly leaf: string;
  readonly opening: string;
  readonly record: string;
}

export interface Ledger {
  /**
   * Appends one record to its tenant's log. Resolves only when the record is durable: after a crash of process or
   * machine at any later moment it is there. Records of one tenant are ordered; those of several are not. Rejects
   * with `ServiceError` `store_unavailable` when the store is down, its queue for the tenant is full, or the log is
   * not what the anchor says it was; the record may then still have become durable, and is never acknowledged.
   *
   * A record whose idempotency scope was seen in the last 24 hours is not appended: the first one's place, receipt
   * and answer are given, also across restarts. Rejects with `idempotency_conflict` when the payload is another, or
   * when the first record was erased.
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

/** Reads records back, beside a running service or without one. Cannot write. */
export interface RecordArchive extends Pick<Ledger, "find"> {
  /** What was kept of a policy revision; undefined where nothing was. Rejects with `store_unavailable`. */
  policyRevision(revision: string): Promise<string | undefined>;
  close(): Promise<void>;
}

/** A log as anyone may see it who may see it at all. */
export interface PublishedLog {
  readonly name: LogName;
  readonly tenantId: TenantId;
  readonly origin: string;
  /** Number of leaves. */
  readonly size: number;
  /** C2SP `vkey` lines, the current key first. */
  readonly verifierKeys: readonly string[];
}

/**
 * The logs as they are published: what C2SP tlog-tiles serves. Names and paths are as they stand in a URL; one that is
 * malformed names nothing. All reject with `store_unavailable`.
 */
export interface PublishedLogs {
  published(): Promise<readonly PublishedLog[]>;
  /** Whose log it is; undefined where there is no such log. */
  tenantOf(name: string): Promise<TenantId | undefined>;
  /** Finds records of a log; undefined where there is no such log. Rejects with `internal` when one is damaged. */
  search(name: string, query: Omit<SearchQuery, "tenantId">): Promise<SearchPage | undefined>;
  /** The signed newest state; undefined where there is no such log. */
  checkpoint(name: string): Promise<string | undefined>;
  /**
   * Hashes or entries of a committed tile, of any width that it has reached, by the path after `tile/`; undefined where
   * there is none.
   */
  tile(name: string, path: string): Promise<Uint8Array | undefined>;
  /** RFC 6962 §2.1.2 hashes; undefined for sizes that the log has not reached, and where there is none. */
  consistencyProof(name: string, first: number, second: number): Promise<readonly Uint8Array[] | undefined>;
}
