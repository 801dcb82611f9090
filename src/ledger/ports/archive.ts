/** Read-only access to a store for operators' commands, with or without a running service. */
import type { RecordId, TenantId } from "../../base/ids.ts";
import type { SignableState } from "./anchor.ts";
import type { ErasurePreview, LegalHold, UndoneErasure } from "./records-administration.ts";
import type { LogState, StoreReads } from "./store.ts";

/** A stored leaf with its sealed record. */
export interface StoredEntry {
  readonly leafIndex: number;
  readonly recordId: string;
  readonly leaf: Uint8Array;
  readonly sealed: Uint8Array;
  /** Undefined if the record was erased. */
  readonly opening: Uint8Array | undefined;
}

/** A stored idempotency record, joined with its ledger record. */
export interface IdempotencyRow {
  readonly leafIndex: number;
  /** Size of the tree in the first answer's receipt. */
  readonly treeSize: number;
  /** Sealed; null if it was erased, like the opening. */
  readonly answer: Uint8Array | null;
  readonly opening: Uint8Array | null;
  readonly recordId: RecordId;
  readonly leaf: Uint8Array;
  /** Sealed. */
  readonly record: Uint8Array;
}

/** Rows that belong to one log. All methods reject as a `StoreArchive` does. */
export interface Companions {
  /** Time of the head, before which no record is made. Milliseconds since the Unix epoch. */
  readonly lastRecordedAtMs: number;
  /** Whether an operator accepted that time, according to one of the last leaves. */
  readonly isTimeAccepted: boolean;
  /** The search index in use; undefined if there is none. */
  readonly searchIndex: SearchRows | undefined;
  readonly registrations: RegistrationRows;
  idempotencyRows(): AsyncIterable<IdempotencyRow>;
}

export interface SearchRows {
  readonly key: Uint8Array;
  /** It has the leaves before this one. */
  readonly filledTo: number;
  /** Terms of the leaves of a block. */
  terms(block: number): Promise<readonly { readonly leafIndex: number; readonly term: Uint8Array }[]>;
}

/** The index of registrations. */
export interface RegistrationRows {
  /** Undefined before the first registration. */
  readonly key: Uint8Array | undefined;
  /** Rows of leaves from `first` to before `end`. */
  within(first: number, end: number): Promise<readonly RegistrationRowOfLeaf[]>;
  /** Rows of an artifact with their leaves, in the order of the log. */
  of(artifact: Uint8Array): Promise<readonly (StoredEntry & Pick<RegistrationRowOfLeaf, "isReliedOn">)[]>;
}

export interface RegistrationRowOfLeaf {
  readonly leafIndex: number;
  readonly artifact: Uint8Array;
  readonly isReliedOn: boolean;
  /** Whether the artifact has no row of a later leaf. */
  readonly isLast: boolean;
}

/** A contradiction in one tenant's log, or in the whole store if the tenant is undefined. */
export interface AnchorFinding {
  readonly tenantId: TenantId | undefined;
  readonly message: string;
}

/** A row without a leaf below the head of its tenant's log: its leaf is beyond the head, or there is no log. */
export interface OrphanRow {
  readonly tenantId: TenantId;
  readonly table: string;
  /** Description of the row: `leaf 7`, or the record without a leaf. */
  readonly name: string;
}

/**
 * A snapshot of the store: later appends are not visible. Changes nothing. Erased records stay erased for readers, even
 * if their openings have come back, and even if only this store's anchor knows of the erasure. All methods reject with
 * `store_unavailable` if the store cannot be read, with `internal` if its content is damaged.
 */
export interface StoreArchive extends StoreReads {
  /**
   * Existing leaves from `first` to before `end`, in order, in constant memory.
   * @param openings `stored`: also those of records whose erasure only the anchor knows, for an audit of the log
   */
  entries(head: LogState, first: number, end: number, openings?: "stored"): AsyncIterable<StoredEntry>;
  /** Stored hashes of a tile; undefined if there is none. */
  storedTile(head: LogState, level: number, index: number): Promise<Uint8Array | undefined>;
  /** Rows that belong to a log of `logs`. */
  companions(head: LogState): Promise<Companions>;
  /** Policy revisions with a stored text. */
  policyRevisions(): Promise<readonly string[]>;
  /**
   * Public keys that have signed checkpoints, the current one last. 32 bytes each. For one log, those up to the key
   * that it has been rotated to: during a rotation, logs may still have the older one.
   */
  signingKeys(head?: LogState): Promise<readonly Uint8Array[]>;
  /** Rows without a log. If a table has many, only some are listed. */
  orphanRows(): Promise<readonly OrphanRow[]>;
  /** All contradictions between the store, as it is now, and its anchor. */
  anchorProblems(): Promise<readonly AnchorFinding[]>;
  /** The newest state, up to this one, that may be signed: what lies beyond the anchor was not answered yet. */
  signable(head: LogState): Promise<SignableState>;
  /** Erasures that must be repeated, as the store is now. */
  undoneErasures(): Promise<readonly UndoneErasure[]>;
  /** Holds by tenant and record, those on whole tenants first; of one tenant, or of all. */
  holds(tenantId: TenantId | undefined): Promise<readonly LegalHold[]>;
  /** The database's clock, in milliseconds since the Unix epoch; undefined if the store uses the machine's. */
  clockMs(): Promise<number | undefined>;
  /** Shows what `RecordsAdministration.erase` would do. */
  previewErasure(tenantId: TenantId, recordIds: readonly RecordId[]): Promise<ErasurePreview>;
}
